'use strict'

const native = require('./native.cjs')
const { failure, ...errors } = require('./errors.cjs')

/** Calls the addon. Its complaints about arguments become type errors. */
function checked (call) {
  try {
    return call()
  } catch (error) {
    if (error.code === 'InvalidArg') throw new TypeError(error.message)
    throw error
  }
}

/** Divides the options into the signal and what the addon gets. */
function split (options = {}) {
  const { signal, ...rest } = options
  return { signal, json: JSON.stringify(rest) }
}

/** Runs a query and returns its lines. */
async function run (target, options, kind) {
  const { signal, json } = split(options)
  signal?.throwIfAborted()
  const query = checked(() => new native.Query(String(target), json, kind))
  const cancel = () => query.cancel()
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    const lines = await query.run()
    if (lines === null) throw signal.reason
    return lines.split('\n').map((line) => JSON.parse(line))
  } finally {
    signal?.removeEventListener('abort', cancel)
  }
}

function answered (line) {
  if (!line.ok) throw failure(line)
  return line
}

async function query (target, options) {
  const [line] = await run(target, options, 'best')
  return answered(line)
}

async function queryAll (target, options) {
  const lines = await run(target, options, 'all')
  return lines.map(answered)
}

async function ping (target, options) {
  const [line] = await run(target, options, 'ping')
  return answered(line)
}

/** Results of many queries. An iterator: `break` stops the queries. */
class Results {
  #native
  #signal
  #lines = []
  #isDone = false
  #stop = () => this.#end()

  constructor (results, signal) {
    this.#native = results
    this.#signal = signal
    signal?.addEventListener('abort', this.#stop, { once: true })
  }

  /** How far it is. */
  get progress () {
    return JSON.parse(this.#native.progress())
  }

  #end () {
    this.#isDone = true
    this.#lines = []
    this.#signal?.removeEventListener('abort', this.#stop)
    this.#native.stop()
  }

  async next () {
    this.#signal?.throwIfAborted()
    if (this.#lines.length === 0 && !this.#isDone) {
      const batch = await this.#native.next()
      this.#signal?.throwIfAborted()
      if (batch === null) {
        this.#end()
      } else if (!this.#isDone) {
        // The last one is taken first.
        this.#lines = batch.split('\n').reverse()
      }
    }
    const line = this.#lines.pop()
    if (line === undefined) return { done: true, value: undefined }
    const answer = JSON.parse(line)
    const { target } = answer
    const value = answer.ok ? { target, answer, error: null } : { target, answer: null, error: failure(answer) }
    return { done: false, value }
  }

  async return (value) {
    this.#end()
    return { done: true, value }
  }

  [Symbol.asyncIterator] () {
    return this
  }
}

function many (start, targets, options) {
  const { signal, json } = split(options)
  signal?.throwIfAborted()
  const list = typeof targets === 'string' ? [targets] : Array.from(targets, String)
  return new Results(checked(() => start(list, json)), signal)
}

function queryMany (targets, options) {
  return many(native.queryMany, targets, options)
}

function sweep (targets, options) {
  return many(native.sweep, targets, options)
}

module.exports = { query, queryAll, ping, queryMany, sweep, ...errors }
