/** Options of a query. Times are in milliseconds. Names are those of the flags of `hailer query`. */
export interface QueryOptions {
  /** Query in this protocol only; `hailer protocols` lists them. */
  protocol?: string
  /** Game of targets without one; `hailer games` lists them. */
  game?: string
  /** Longest time to wait for a reply, before a retry. Default: 1,000. */
  timeout?: number
  /** Retries after a timeout, 0 to 100. Default: 3; of a sweep: 2. */
  retries?: number
  /** Longest time for one query. Default: 10,000, or the timeout × (retries + 1) if that is longer. */
  deadline?: number
  /** Whether to request the list of players. Default: true. */
  players?: boolean
  /** Whether to request rules, in protocols with a separate request for them. Default: true. */
  rules?: boolean
  /** Request only the short reply of the protocol. */
  basic?: boolean
  /** Reject replies that deviate from the protocol. */
  strict?: boolean
  /** Auth token, for protocols that use one. */
  authToken?: string
  /** Character set of texts that are not UTF-8, such as GBK. Default: a guess by content. */
  charset?: string
  /** Local address to send from, with or without a port. */
  source?: string
  /** Name server for host names, as `ADDRESS:PORT`. Default: that of the system. */
  nameServer?: string
  /** Time for other protocols of the same game, once one has answered. */
  wait?: number
  /** Encryption of protocols over HTTP. Default: that of the protocol. */
  tls?: 'off' | 'verified' | 'any'
  /** Host name to send instead of that of the target. */
  sendHost?: string
  /** Begin connections over TCP with a PROXY protocol header. */
  proxyHeader?: boolean
  /** Query only the port of the target, even if its game has another port for queries. */
  givenPortOnly?: boolean
  /** Cancels the query, which then fails with the reason of the signal. */
  signal?: AbortSignal
}

/** Options of {@link queryMany}. */
export interface QueryManyOptions extends QueryOptions {
  /** Servers queried at the same time, 1 to 1,024. Default: 64. */
  concurrency?: number
}

/** Options of {@link sweep}. Names are those of the flags of `hailer sweep`. */
export interface SweepOptions
  extends Pick<QueryOptions, 'game' | 'timeout' | 'retries' | 'deadline' | 'players' | 'rules' | 'basic' | 'strict' | 'charset' | 'source' | 'nameServer' | 'signal'> {
  /** Protocols of targets without a protocol or game. */
  protocol?: string | string[]
  /** Datagrams per second to all servers. Default: 1,000. */
  rate?: number
  /** Bits per second. Default: unlimited. */
  bandwidth?: number
  /** Datagrams per second to one network (IPv4 /24, IPv6 /48). Default: 50. */
  perNetwork?: number
  /** Addresses, networks and ranges that are never queried. */
  exclude?: string[]
  /** Whether to return failures too. Default: true. */
  failed?: boolean
  /** Share of the targets to query, such as `2/4`. */
  shard?: string
  /** Seed of the order of the targets. */
  seed?: number
  /** Largest number of queries in flight. Default: 750,000. */
  maxInFlight?: number
  /** Memory for queries in flight, in bytes. Default: 256 MiB. */
  maxMemory?: number
}

/** A value of a field that only one protocol has. */
export type Extra = boolean | number | string | Extra[] | { [key: string]: Extra }

/** Formatted text. */
export interface Text {
  /** The text without color codes. */
  plain: string
  [key: string]: unknown
}

export interface Player {
  name: Text | string
  uuid?: string
  score?: number
  time_s?: number
  team?: string
  latency_ms?: number
  extra?: { [key: string]: Extra }
}

export interface Status {
  name: Text | string | null
  motd: Text | string | null
  game: string | null
  mode: string | null
  map: string | null
  version: string | null
  players: {
    online: number | null
    max: number | null
    bots?: number
    roster: 'absent' | 'refused' | 'partial' | 'whole' | 'sample'
    list: Player[]
  }
  rules: Array<{ key: string, value: string }>
  address: { host: string | null, port: number | null } | null
  password?: boolean
  anti_cheat?: boolean
  /** Icon as a `data:` URI. */
  icon?: string
  extra: { [key: string]: Extra }
  deviations: unknown[]
}

/** An answer, as `schema/answer-v2.json` describes it. */
export interface Answer {
  schema: string
  target: string
  ok: true
  protocol: string
  address: string
  latency_ms: number
  /** Name of the server, or first line of its message of the day. */
  title: string | null
  status: Status
  datagrams_sent: number
  datagrams_received: number
  refused: string[]
  /** Protocols of the fields that are not from `protocol`. */
  sources?: { [field: string]: string }
  notes?: string[]
}

/** Result of one of many queries: either `answer` or `error` is `null`. */
export type Result =
  | { target: string, answer: Answer, error: null }
  | { target: string, answer: null, error: QueryError }

/** Progress of a sweep. */
export interface Progress {
  probes: number
  answered: number
  timed_out: number
  port_closed: number
  unreachable: number
  invalid: number
  unresolved: number
  datagrams_sent: number
  datagrams_received: number
  bytes_sent: number
  bytes_received: number
  /** Total number of queries, or `null` if it is not known. */
  total: number | null
  /** Queries that are not finished. */
  in_flight: number
  [count: string]: number | null
}

/** Results as they arrive. `break` out of a loop stops the queries. */
export interface Results extends AsyncIterableIterator<Result> {
  return(value?: any): Promise<IteratorResult<Result>>
}

/** Results of a sweep, with its progress. */
export interface SweepResults extends Results {
  readonly progress: Progress
}

/** Queries a server and returns its best answer. */
export function query (target: string, options?: QueryOptions): Promise<Answer>
/** Queries a server in all protocols and returns the answer of each, the most complete first. */
export function queryAll (target: string, options?: QueryOptions): Promise<Answer[]>
/** Measures the latency with the cheapest request. The status is empty. */
export function ping (target: string, options?: QueryOptions): Promise<Answer>
/** Queries servers, some at the same time. */
export function queryMany (targets: Iterable<string>, options?: QueryManyOptions): Results
/** Queries many servers at a limited rate. Targets may be networks and ranges. */
export function sweep (targets: string | Iterable<string>, options?: SweepOptions): SweepResults

/** Cause of an error, as `error.kind` in `schema/answer-v2.json`. */
export type Code =
  | 'target' | 'name-not-found' | 'lookup' | 'excluded' | 'unreachable' | 'port-closed' | 'silence'
  | 'refused' | 'malformed' | 'flood' | 'deviates'

/** A query without an answer. */
export class QueryError extends Error {
  readonly code: Code | (string & {})
  readonly target: string | null
  readonly protocol: string | null
  readonly address: string | null
}
/** The target is invalid, or excluded. */
export class TargetError extends QueryError {}
/** The name does not exist, or cannot be looked up. */
export class ResolveError extends QueryError {}
/** The host cannot be reached, or TLS fails. */
export class UnreachableError extends QueryError {}
/** Nothing listens on the port. */
export class PortClosedError extends UnreachableError {}
/** No reply arrived in time. */
export class SilenceError extends QueryError {}
/** The server refused to answer. */
export class RefusedError extends QueryError {}
/** The reply is invalid. */
export class InvalidReplyError extends QueryError {}
