// Queries responders with node-gamedig. Argument: JSON list of [type, port, counts], where each
// count is a number of queries at the same time. Prints a JSON list with the results of each type
// and count: names, or errors.
import { GameDig } from 'gamedig'

async function run (type, port, count) {
  // A program that starts: its socket is not bound yet.
  const client = new GameDig()
  const options = { givenPortOnly: true, maxRetries: 1, attemptTimeout: 60_000, teamspeakQueryPort: port }
  // Each request of this protocol ends with the timeout. On a busy machine, node may read the reply after the usual 2 s.
  if (type === 'protocol-unreal2') options.socketTimeout = 4_000
  // Other than the port for queries, that for voice is a part of the request.
  const voice = type === 'protocol-teamspeak3' ? 9987 : port
  const query = () => client.query({ type, host: '127.0.0.1', port: voice, ...options })
  const all = await Promise.allSettled(Array.from({ length: count }, query))
  return all.map((one) => (one.status === 'fulfilled' ? one.value.name : `error: ${one.reason}`))
}

async function runAll ([type, port, counts]) {
  const results = []
  for (const count of counts) {
    results.push(await run(type, port, count))
  }
  return results
}

console.log(JSON.stringify(await Promise.all(JSON.parse(process.argv[1]).map(runAll))))
process.exit(0)
