// Compiled by `types.test.mjs`: uses of all functions that must be valid, and mistakes that must not.
import { ping, query, queryAll, queryMany, sweep, PortClosedError, QueryError, type Answer, type Result } from 'hailer'
import { GameDig, GameDigError, games, type QueryResult } from 'hailer/gamedig'

const answer: Answer = await query('play.example.com', { timeout: 500, signal: AbortSignal.timeout(1_000) })
const online: number | null = answer.status.players.online
const titles: Array<string | null> = (await queryAll('play.example.com')).map((one) => one.title)
const latency: number = (await ping('play.example.com')).latency_ms
for await (const result of queryMany(new Set(['a', 'b']), { concurrency: 2 })) {
  const one: Result = result
  // One of both is there.
  const text: string = one.answer ? one.answer.protocol : one.error.code
  console.log(text)
}
const results = sweep('192.0.2.0/24', { protocol: ['a2s', 'ugp'], rate: 100, exclude: ['192.0.2.1'] })
const total: number | null = results.progress.total
const error: QueryError = new PortClosedError('text')
const state: QueryResult = await GameDig.query({ type: 'csgo', host: '192.0.2.7', port: 27015, givenPortOnly: true })
const own: GameDig = new GameDig({ listenUdpPort: 13337 })
const port: number | undefined = games.csgo?.options.port
const reason: string | null = (new Error() as GameDigError).reason
console.log(online, titles, latency, total, error.code, state.connect, own, port, reason)

// @ts-expect-error A misspelled option.
await query('host', { timeOut: 5 })
// @ts-expect-error Sweeps have no TLS.
sweep([], { tls: 'off' })
// @ts-expect-error The type is missing.
await GameDig.query({ host: 'host' })
// @ts-expect-error A target is a text.
await query(5)
