import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { farm, skipped } from './farm.mjs'
import * as hailer from '../lib/index.mjs'

const { query, queryAll, queryMany, ping, sweep } = hailer
const skip = skipped()
let servers
const at = (protocol, number = 1) => `${protocol}://127.97.0.${number}:${servers.ports[protocol]}`

before(async () => {
  if (!skip) servers = await farm(['a2s', 'minecraft-query', 'ugp'])
})
after(() => servers?.stop())

/** Starts a server that never replies. Returns its target and a function that ends it. */
async function silent () {
  const socket = createSocket('udp4')
  await new Promise((resolve) => socket.bind(0, '127.0.0.1', resolve))
  return { target: `a2s://127.0.0.1:${socket.address().port}`, stop: () => socket.close() }
}

test('a query returns the answer of the schema', { skip }, async () => {
  const answer = await query(at('a2s'))
  assert.equal(answer.schema, 'hailer/answer/2')
  assert.equal(answer.protocol, 'a2s')
  assert.equal(answer.target, at('a2s'))
  assert.ok(answer.title.length > 0 && answer.latency_ms > 0)
  assert.equal(answer.status.players.list.length, answer.status.players.online)
  assert.ok(answer.status.rules.length > 0)
  const short = await query(at('a2s'), { players: false, rules: false })
  assert.deepEqual([short.status.players.list, short.status.rules], [[], []])
  const plain = `127.97.0.2:${servers.ports.ugp}`
  assert.equal((await query(plain, { protocol: 'ugp' })).protocol, 'ugp')
  const all = await queryAll(plain)
  assert.ok(all.some((one) => one.protocol === 'ugp'))
  const measured = await ping(at('ugp'))
  assert.ok(measured.latency_ms > 0 && measured.title === null)
})

test('both kinds of modules have the same names', () => {
  const required = createRequire(import.meta.url)('../lib/index.cjs')
  const { default: imported, ...names } = hailer
  assert.equal(imported, required)
  assert.deepEqual(Object.keys(names).sort(), Object.keys(required).sort())
})

test('errors have a class and a code', { skip }, async () => {
  const fails = async (target, Class, code, options) => {
    await assert.rejects(query(target, options), (error) => {
      assert.ok(error instanceof Class && error instanceof hailer.QueryError && error instanceof Error)
      assert.deepEqual([error.name, error.code, error.target], [Class.name, code, target])
      return true
    })
  }
  await fails('a b', hailer.TargetError, 'target')
  await fails('squad://192.0.2.7', hailer.TargetError, 'target')
  await fails('a2s://127.97.0.1:9', hailer.PortClosedError, 'port-closed')
  const { target, stop } = await silent()
  await fails(target, hailer.SilenceError, 'silence', { timeout: 20, retries: 0 })
  stop()
  assert.ok(new hailer.PortClosedError('x') instanceof hailer.UnreachableError)
  for (const options of [{ protocol: 'gopher' }, { timeout: -1 }, { unknown: 1 }, { tls: 'x' }, { game: 'x' }]) {
    await assert.rejects(query('127.0.0.1', options), TypeError)
  }
  assert.throws(() => sweep(['host:0']), TypeError)
  assert.throws(() => sweep(['192.0.2.1'], { rate: 0 }), TypeError)
})

test('signals cancel queries, and the event loop goes on', async () => {
  const { target, stop } = await silent()
  let ticks = 0
  const ticking = setInterval(() => ticks++, 5)
  const started = Date.now()
  await assert.rejects(query(target, { signal: AbortSignal.timeout(200) }), { name: 'TimeoutError' })
  assert.ok(Date.now() - started < 2_000 && ticks >= 10, `${ticks} ticks`)
  clearInterval(ticking)
  const reason = new Error('not now')
  await assert.rejects(query(target, { signal: AbortSignal.abort(reason) }), reason)
  const signal = AbortSignal.timeout(100)
  await assert.rejects(async () => {
    for await (const result of queryMany([target], { signal })) assert.fail(result)
  }, { name: 'TimeoutError' })
  stop()
})

test('many servers answer as they come', { skip }, async () => {
  const targets = Array.from({ length: 40 }, (_, i) => at('minecraft-query', i + 1))
  const seen = new Set()
  for await (const { target, answer, error } of queryMany([...targets, 'a b'], { concurrency: 8 })) {
    assert.equal(answer === null, target === 'a b')
    assert.equal(error?.code, target === 'a b' ? 'target' : undefined)
    seen.add(target)
  }
  assert.equal(seen.size, 41)
})

test('a sweep is an iterator with progress', { skip }, async () => {
  const results = sweep(`a2s://127.97.0.0/24:${servers.ports.a2s}`, { rate: 20_000, perNetwork: 20_000, exclude: ['127.97.0.9'] })
  let answered = 0
  for await (const { target, answer } of results) {
    if (answer) answered++
    assert.match(target, /^a2s:\/\/127\.97\.0\./)
    assert.doesNotMatch(target, /127\.97\.0\.9:/)
  }
  const { progress } = results
  assert.deepEqual([progress.answered, progress.total, progress.in_flight], [answered, 255, 0])
  assert.ok(answered >= 250, `${answered}`)
})

test('a sweep ends when its loop does', { skip }, async () => {
  const results = sweep('a2s://127.97.0.0/16', { rate: 1, perNetwork: 1, failed: true, timeout: 50 })
  setTimeout(() => results.return(), 300)
  for await (const { answer } of results) assert.equal(answer, null)
  const first = sweep(`a2s://127.97.0.0/24:${servers.ports.a2s}`, { rate: 1_000 })
  for await (const { answer } of first) {
    if (answer) break
  }
  assert.ok(first.progress.answered < 255)
  assert.deepEqual(await first.next(), { done: true, value: undefined })
})

test('the process ends when the work does', { skip }, () => {
  const text = `
    import { query, sweep } from '${fileURLToPath(new URL('../lib/index.mjs', import.meta.url))}'
    await query('${at('ugp')}')
    for await (const { answer } of sweep('127.97.0.0/16', { protocol: 'a2s', rate: 100, timeout: 10 })) break
    console.log('done')`
  const started = Date.now()
  const child = spawnSync(process.execPath, ['--input-type=module', '--eval', text], { encoding: 'utf8', timeout: 20_000 })
  assert.deepEqual([child.stdout, child.stderr, child.status], ['done\n', '', 0])
  assert.ok(Date.now() - started < 15_000)
})
