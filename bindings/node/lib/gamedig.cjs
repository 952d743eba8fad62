// A drop-in replacement for gamedig (node-gamedig) 5.
'use strict'

const native = require('./native.cjs')
const { QueryError } = require('./errors.cjs')

/** A query that failed. The message is that of gamedig; `reason` says what happened. */
class GameDigError extends QueryError {
  constructor ({ error, code, reason }) {
    super(error, { code })
    this.reason = reason
    if (reason) this.stack += `\n    ${reason}`
  }
}

class GameDig {
  static #instance = null
  #client

  constructor (options = {}) {
    const port = Number.parseInt(options?.listenUdpPort ?? 0) || 0
    this.#client = new native.GamedigClient(port)
  }

  async query (options) {
    // Functions and undefined values have no meaning.
    const given = { ...options }
    if (given.debug) console.log('hailer: query', given)
    const result = JSON.parse(await this.#client.query(JSON.stringify(given)))
    if ('error' in result) {
      const error = new GameDigError(result)
      if (given.debug) console.log('hailer: failed', error)
      throw error
    }
    if (given.debug) console.log('hailer: answer', result)
    return result
  }

  static getInstance () {
    GameDig.#instance ??= new GameDig()
    return GameDig.#instance
  }

  static async query (options) {
    return await GameDig.getInstance().query(options)
  }
}

let games = null

module.exports = {
  GameDig,
  GameDigError,
  /** All games, by id. */
  get games () {
    games ??= JSON.parse(native.gamedigGames())
    return games
  }
}
