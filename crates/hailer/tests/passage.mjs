// Clients of minecraft-protocol and mineflayer, which join a server of minecraft-protocol through a
// door. Arguments: port of the door, port of the game, versions. Prints a line for each join.
import mc from 'minecraft-protocol'
import mineflayer from 'mineflayer'
import minecraftData from 'minecraft-data'

const [door, game, ...versions] = process.argv.slice(1)
const host = '127.0.0.1'
const TIMEOUT = 20_000

function start (version) {
  return new Promise((resolve, reject) => {
    const options = { host, port: Number(game), version, 'online-mode': false, keepAlive: false, motd: 'real' }
    const server = mc.createServer({ ...options, hideErrors: true })
    server.on('listening', () => resolve(server))
    server.on('error', reject)
  })
}

function stop (server) {
  return new Promise((resolve) => {
    server.socketServer.close(resolve)
    for (const client of Object.values(server.clients)) client.end()
  })
}

function within (promise, what) {
  const late = new Promise((resolve, reject) => setTimeout(() => reject(new Error(`${what}: too late`)), TIMEOUT).unref())
  return Promise.race([promise, late])
}

for (const version of versions) {
  const server = await start(version)
  const username = `P${version.replaceAll('.', '_')}`
  const joined = new Promise((resolve) => server.on('playerJoin', (client) => resolve(client.username)))
  const client = mc.createClient({ host, port: Number(door), username, version, auth: 'offline', fakeHost: 'MC.Example.org.' })
  const accepted = new Promise((resolve, reject) => {
    client.on('success', resolve)
    client.on('error', reject)
    client.on('disconnect', (packet) => reject(new Error(JSON.stringify(packet))))
  })
  await within(accepted, `${version} client`)
  const name = await within(joined, `${version} server`)
  if (name !== username) throw new Error(`${name} joined instead of ${username}`)
  client.end()
  await stop(server)
  console.log(`joined ${version}`)
}

const version = '1.20.1'
const server = await start(version)
const data = minecraftData(version)
server.on('playerJoin', (client) => {
  client.write('login', { ...data.loginPacket, enforceSecureProfile: false, hashedSeed: [0, 0], entityId: client.id })
  client.write('position', { x: 0, y: 64, z: 0, yaw: 0, pitch: 0, flags: 0 })
})
const bot = mineflayer.createBot({ host, port: Number(door), username: 'Bot', version: false, auth: 'offline' })
await within(new Promise((resolve, reject) => {
  bot.once('login', resolve)
  bot.once('error', reject)
  bot.once('kicked', (reason) => reject(new Error(reason)))
}), 'mineflayer')
if (bot.version !== version) throw new Error(`mineflayer chose ${bot.version}`)
bot.end()
await stop(server)
console.log('joined mineflayer')
process.exit(0)
