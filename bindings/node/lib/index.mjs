import hailer from './index.cjs'

export const {
  query,
  queryAll,
  ping,
  queryMany,
  sweep,
  QueryError,
  TargetError,
  ResolveError,
  UnreachableError,
  PortClosedError,
  SilenceError,
  RefusedError,
  InvalidReplyError
} = hailer
export default hailer
