// Simulated servers for the tests: `hailer farm`. HAILER is the path of the tool; the default is that of a build of
// the workspace.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Path of the tool. */
export const tool = process.env.HAILER ?? `${root}target/debug/hailer`
/** Root of the repository. */
export { root }

/** Returns why tests with servers are skipped, or `false`. */
export function skipped () {
  if (existsSync(tool)) return false
  if (process.env.HAILER_NEEDS_NPM) throw new Error(`no ${tool}`)
  return `no ${tool}`
}

/** Folders of the packages of npm that the tests use, where `.ci/run` installs them. */
const folders = [`${root}target/npm/node_modules`, `${root}target/node/node_modules`]

/** Returns the folder of a package of npm, if it is installed. */
export function packageFolder (name) {
  return folders.map((folder) => `${folder}/${name}`).find(existsSync)
}

/** Returns why tests with a package of npm are skipped, or `false`. */
export function hasNo (name) {
  if (packageFolder(name)) return false
  const reason = `the npm package ${name} is not in ${folders.join(' or ')}`
  if (process.env.HAILER_NEEDS_NPM) throw new Error(reason)
  return reason
}

/** Loads a package of npm. */
export function npmPackage (name) {
  return createRequire(`${packageFolder(name)}/`)(name)
}

/**
 * Starts a farm in 127.97.0.0/24 with these protocols, at consecutive ports. Without a first port, they are free ones.
 * With the same ports, the servers are the same. Returns the port of each protocol and a function that ends the farm.
 */
export async function farm (protocols, first) {
  const port = (place) => (first ? first + place : 0)
  const ports = protocols.flatMap((id, place) => ['--protocol', id, '--port', `${id}=${port(place)}`])
  const child = spawn(tool, ['farm', '127.97.0.0/24', '--for', '120s', '--variants', '64', ...ports], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const found = {}
  for await (const line of createInterface(child.stdout)) {
    const [, port, id] = line.match(/:(\d+) for (\S+)$/)
    found[id] = Number(port)
    if (Object.keys(found).length === protocols.length) break
  }
  const stop = async () => {
    child.kill()
    await ended
  }
  return { ports: found, stop }
}
