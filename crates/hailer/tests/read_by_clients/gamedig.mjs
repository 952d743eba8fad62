// Reads servers with node-gamedig. Arguments: JSON list of [type, port], address. Prints a JSON list with the
// fields that it read of each, or its error.
//
// All queries share one client, thus one socket. Sockets of several clients may have the same port, because
// the client sets `reuseAddr`: then all but one of them receive nothing.
import { GameDig } from 'gamedig'

const client = new GameDig()
const servers = JSON.parse(process.argv[1])
const results = []

async function read ([type, port]) {
  const options = { givenPortOnly: true, maxRetries: 3, attemptTimeout: 20_000, socketTimeout: 3_000 }
  // Other than the port for queries, that for voice is a part of the request.
  const voice = type === 'protocol-teamspeak3' ? 9987 : port
  const more = { requestRules: true, teamspeakQueryPort: port }
  try {
    const state = await client.query({ type, host: process.argv[2], port: voice, ...options, ...more })
    return {
      name: state.name,
      map: state.map,
      online: state.numplayers,
      max: state.maxplayers,
      players: state.players.map((player) => player.name),
      password: state.password,
      version: state.version,
      raw: JSON.stringify(state.raw)
    }
  } catch (error) {
    return { error: String(error.stack) }
  }
}

async function readNext () {
  while (results.length < servers.length) {
    const i = results.push(null) - 1
    results[i] = await read(servers[i])
  }
}

// The first query opens the socket. Its receive buffer holds the replies to some dozens.
results.push(await read(servers[0]))
await Promise.all(Array.from({ length: 50 }, readNext))
// An exit before the callback would cut what a pipe does not take at once.
process.stdout.write(JSON.stringify(results), () => process.exit(0))
