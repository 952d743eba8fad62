import { QueryError } from './index.js'

/** Options of gamedig. Others are ignored. */
export interface QueryOptions {
  type: string
  host?: string
  address?: string
  port?: number | string
  maxRetries?: number
  socketTimeout?: number
  attemptTimeout?: number
  givenPortOnly?: boolean
  ipFamily?: 0 | 4 | 6
  debug?: boolean
  requestRules?: boolean
  requestPlayers?: boolean
  requestRulesRequired?: boolean
  requestPlayersRequired?: boolean
  stripColors?: boolean
  portCache?: boolean
  noBreadthOrder?: boolean
  checkOldIDs?: boolean
  teamspeakQueryPort?: number
  token?: string
  username?: string
  password?: string
  guildId?: string
  [option: string]: unknown
}

export interface Player {
  name: string
  raw: { [key: string]: any }
}

export interface QueryResult {
  name: string
  map: string
  password: boolean
  raw: { [key: string]: any }
  version: string
  maxplayers: number
  numplayers: number
  players: Player[]
  bots: Player[]
  queryPort: number
  connect: string
  ping: number
}

export class GameDig {
  constructor (options?: { listenUdpPort?: number | string })
  query (options: QueryOptions): Promise<QueryResult>
  static getInstance (): GameDig
  static query (options: QueryOptions): Promise<QueryResult>
}

/** A query that failed. The message is that of gamedig. */
export class GameDigError extends QueryError {
  /** What happened. */
  readonly reason: string | null
}

export interface Game {
  name: string
  options: { port?: number, port_query?: number, protocol: string }
}

/** All games that can be queried, by id. Aliases are ids too. */
export const games: { [id: string]: Game }
