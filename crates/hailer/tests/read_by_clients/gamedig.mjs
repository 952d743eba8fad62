// Reads servers with node-gamedig. Arguments: JSON list of [type, port], address. Prints a JSON list with the
// fields that it read of each, or its error.
import { GameDig } from 'gamedig'

async function read ([type, port]) {
  const client = new GameDig()
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

const servers = JSON.parse(process.argv[1])
const results = await Promise.all(servers.map(read))
// With so many queries at a time, one of them sometimes fails, for an unknown reason: such servers are
// read once more, alone.
for (const i of servers.keys()) {
  if (results[i].error) results[i] = await read(servers[i])
}
// An exit before the callback would cut what a pipe does not take at once.
process.stdout.write(JSON.stringify(results), () => process.exit(0))
