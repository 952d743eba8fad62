// Errors of queries, one class for each cause that a program can act on.
'use strict'

/** A query without an answer. */
class QueryError extends Error {
  constructor (message, details = {}) {
    super(message)
    this.name = new.target.name
    this.code = details.code ?? 'unknown'
    this.target = details.target ?? null
    this.protocol = details.protocol ?? null
    this.address = details.address ?? null
  }
}

/** The target is invalid. */
class TargetError extends QueryError {}
/** The name does not exist, or cannot be looked up. */
class ResolveError extends QueryError {}
/** The host cannot be reached, or TLS fails. */
class UnreachableError extends QueryError {}
/** Nothing listens on the port. */
class PortClosedError extends UnreachableError {}
/** No reply arrived in time. */
class SilenceError extends QueryError {}
/** The server refused to answer. */
class RefusedError extends QueryError {}
/** The reply is invalid. */
class InvalidReplyError extends QueryError {}

/** Classes by the `kind` of an error in `schema/answer-v2.json`. */
const CLASSES = {
  target: TargetError,
  'name-not-found': ResolveError,
  lookup: ResolveError,
  excluded: TargetError,
  unreachable: UnreachableError,
  'port-closed': PortClosedError,
  silence: SilenceError,
  refused: RefusedError,
  malformed: InvalidReplyError,
  flood: InvalidReplyError,
  deviates: InvalidReplyError
}

/** Returns the error of a line of JSON. */
function failure (line) {
  const Class = CLASSES[line.error.kind] ?? QueryError
  const { target, protocol, address } = line
  return new Class(line.error.message, { code: line.error.kind, target, protocol, address })
}

module.exports = { QueryError, TargetError, ResolveError, UnreachableError, PortClosedError, SilenceError, RefusedError, InvalidReplyError, failure }
