// The drop-in for gamedig: both read the same simulated servers. The guide lists the differences, and this test checks
// that its list is exact.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'
import { farm, hasNo, npmPackage, root, skipped } from './farm.mjs'
import hailer, { GameDig, GameDigError, games } from '../lib/gamedig.mjs'

/** Protocols that both have, and the types of gamedig. */
const TYPES = {
  a2s: 'protocol-valve',
  ase: 'protocol-ase',
  battlefield: 'protocol-battlefield',
  doom3: 'protocol-doom3',
  gamespy1: 'protocol-gamespy1',
  gamespy2: 'protocol-gamespy2',
  gamespy3: 'protocol-gamespy3',
  'minecraft-bedrock': 'protocol-minecraftbedrock',
  'minecraft-query': 'protocol-gamespy3',
  'minecraft-status': 'protocol-minecraftvanilla',
  mumble: 'protocol-mumbleping',
  openttd: 'protocol-openttd',
  quake1: 'protocol-quake1',
  quake2: 'protocol-quake2',
  quake3: 'protocol-quake3',
  samp: 'protocol-samp',
  satisfactory: 'protocol-satisfactory',
  starmade: 'protocol-starmade',
  teamspeak2: 'protocol-teamspeak2',
  teamspeak3: 'protocol-teamspeak3',
  unreal2: 'protocol-unreal2'
}
/** Servers of each protocol. The farm has 64 different ones. */
const SERVERS = 64

const skip = skipped() || hasNo('gamedig')
let servers
let theirs

before(async () => {
  if (skip) return
  // Below the ports that the system gives to clients.
  servers = await farm(Object.keys(TYPES), 21_100)
  theirs = npmPackage('gamedig').GameDig
})
after(() => servers?.stop())

function options (protocol, number) {
  const port = servers.ports[protocol]
  return {
    type: TYPES[protocol],
    host: `127.97.0.${number}`,
    // Other than the port for queries, that for voice is a part of the request.
    port: protocol.startsWith('teamspeak') ? 9987 : port,
    teamspeakQueryPort: port,
    givenPortOnly: true,
    maxRetries: 3,
    requestRules: true
  }
}

/** Adds the paths of differing values. Numbers in paths are left out. What only ours has is no difference. */
function compare (theirs, ours, path, found) {
  const isObject = (value) => typeof value === 'object' && value !== null
  if (isObject(theirs) && isObject(ours) && Array.isArray(theirs) === Array.isArray(ours)) {
    for (const key of Object.keys(theirs)) {
      const name = Array.isArray(theirs) ? path : path === '' ? key : `${path}.${key}`
      compare(theirs[key], ours[key], name, found)
    }
    if (Array.isArray(theirs) && theirs.length !== ours.length) found.add(path)
  } else if (theirs !== ours) {
    found.add(path)
  }
}

/** Returns the rows of the guide's table: protocol and field. */
function listed () {
  const guide = readFileSync(`${root}docs/javascript.md`, 'utf8')
  const table = guide.split('| protocols | fields |')[1].split('\n\n')[0]
  const rows = table.split('\n').slice(2).map((row) => row.split('|').slice(1, 3))
  const words = (cell) => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1])
  return rows.flatMap(([protocols, fields]) =>
    words(protocols).flatMap((protocol) => words(fields).map((field) => `${protocol} ${field}`)))
}

test('the guide lists the differences from gamedig', { skip, timeout: 240_000 }, async () => {
  const found = new Set()
  const own = new GameDig()
  // One socket for all: several with the same port would take each other's replies.
  const other = new theirs()
  for (const protocol of Object.keys(TYPES)) {
    const numbers = Array.from({ length: SERVERS }, (_, i) => i + 1)
    await Promise.all(numbers.map(async (number) => {
      const query = options(protocol, number)
      const [expected, result] = await Promise.all([other.query({ ...query }), own.query(query)])
      const differences = new Set()
      compare(JSON.parse(JSON.stringify(expected)), result, '', differences)
      differences.delete('ping')
      assert.ok(Number.isInteger(result.ping) && result.ping >= 0)
      assert.deepEqual(Object.keys(result), Object.keys(expected).sort((a, b) => Object.keys(result).indexOf(a) - Object.keys(result).indexOf(b)))
      for (const path of differences) found.add(`${protocol} ${path}`)
    }))
  }
  const rows = listed()
  assert.equal(new Set(rows).size, rows.length)
  assert.deepEqual([...found].filter((one) => !rows.includes(one)), [], 'not in the list')
  assert.deepEqual(rows.filter((one) => !found.has(one)), [], 'in the list, but equal')
})

test('all ids of gamedig are known', { skip }, async () => {
  const gamedig = npmPackage('gamedig')
  const ids = Object.entries(gamedig.games).flatMap(([id, game]) => [id, game.extra?.old_id]).filter(Boolean)
  assert.ok(ids.length > 450)
  // The host is missing: known types fail later than unknown ones.
  const messages = await Promise.all(ids.map((type) => GameDig.query({ type }).catch((error) => error.message)))
  assert.deepEqual(ids.filter((_, i) => messages[i] !== 'Failed all 1 attempts' && !/^Failed all/.test(messages[i])), [])
  assert.equal(games.csgo.options.protocol, 'a2s')
  assert.equal(games.valheim.options.port_query, 2457)
})

test('classes, static calls and errors are those of gamedig', { skip }, async () => {
  const required = createRequire(import.meta.url)('../lib/gamedig.cjs')
  assert.equal(required, hailer)
  const query = options('a2s', 1)
  const state = await required.GameDig.query(query)
  assert.match(state.connect, /^127\.97\.0\.1:\d+$/)
  assert.equal(state.queryPort, query.port)
  assert.equal(required.GameDig.getInstance(), GameDig.getInstance())
  await assert.rejects(GameDig.query({ host: 'h' }), { message: 'No game specified' })
  await assert.rejects(GameDig.query({ type: 'gopher', host: 'h' }), { message: 'Invalid game: gopher', code: 'type' })
  const closed = { type: 'csgo', host: '127.97.0.1', port: 9, givenPortOnly: true, maxRetries: 2 }
  await assert.rejects(GameDig.query(closed), (error) => {
    assert.ok(error instanceof GameDigError && error instanceof Error)
    assert.deepEqual([error.message, error.code], ['Failed all 2 attempts', 'port-closed'])
    assert.match(error.reason, /nothing listens/)
    return true
  })
})

test('options have the effect that they have in gamedig', { skip }, async () => {
  const query = options('a2s', 3)
  const read = (more) => GameDig.query({ ...query, requestRules: undefined, ...more })
  const usual = await read({})
  assert.ok(usual.players.length > 0 && !('rules' in usual.raw))
  assert.ok(Object.keys((await read({ requestRules: true })).raw.rules).length > 0)
  assert.deepEqual((await read({ requestPlayers: false })).players, [])
  const named = await read({ host: 'no.such.host.invalid', address: query.host })
  assert.match(named.connect, /^no\.such\.host\.invalid:\d+$/)
  await assert.rejects(read({ ipFamily: 6 }), { message: 'Failed all 3 attempts' })
  assert.equal((await read({ ipFamily: 4, port: String(query.port) })).name, usual.name)
  const local = new GameDig({ listenUdpPort: 40_917 })
  assert.equal((await local.query(query)).name, usual.name)
  const colored = options('quake3', 1)
  const texts = await Promise.all([true, false].map(async (stripColors) => {
    const all = Array.from({ length: 16 }, (_, i) => GameDig.query({ ...colored, host: `127.97.0.${i + 1}`, stripColors }))
    return (await Promise.all(all)).map((state) => state.name).join()
  }))
  assert.doesNotMatch(texts[0], /\^\d/)
  assert.match(texts[1], /\^\d/)
  // Ports that belong to the given one are tried unless it is the only one.
  const offset = { type: 'valheim', host: query.host, port: query.port - 1, maxRetries: 1 }
  assert.equal((await GameDig.query(offset)).queryPort, query.port)
  await assert.rejects(GameDig.query({ ...offset, givenPortOnly: true, socketTimeout: 200 }), GameDigError)
})
