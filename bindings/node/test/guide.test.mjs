// The programs of docs/javascript.md run against simulated servers, and its statements about the package are true.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { farm, root, skipped } from './farm.mjs'
import * as hailer from '../lib/index.mjs'

const skip = skipped()
const guide = readFileSync(`${root}docs/javascript.md`, 'utf8')
const tutorial = readFileSync(`${root}docs/tutorials/javascript.md`, 'utf8')
const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
let servers

before(async () => {
  if (!skip) servers = await farm(['a2s', 'minecraft-status'])
})
after(() => servers?.stop())

/** Returns the programs of a page with the hosts of the farm. */
function programs (page) {
  const blocks = page.split('```js\n').slice(1).map((rest) => rest.split('```')[0])
  const { ports } = servers
  return blocks.map((text) => text
    .replaceAll('minecraft://play.example.com', `minecraft://127.97.0.1:${ports['minecraft-status']}`)
    .replaceAll('a2s://192.0.2.7:27015', `a2s://127.97.0.1:${ports.a2s}`)
    .replaceAll('a2s://192.0.2.0/24:27015', `a2s://127.97.0.0/30:${ports.a2s}`)
    .replaceAll("'192.0.2.9'", "'127.97.0.3'")
    .replaceAll("host: '192.0.2.7', port: 27015", `host: '127.97.0.1', port: ${ports.a2s}`)
    .replaceAll(/from ['"]hailer['"]/g, `from '${new URL('../lib/index.mjs', import.meta.url)}'`)
    .replaceAll(/from ['"]hailer\/gamedig['"]/g, `from '${new URL('../lib/gamedig.mjs', import.meta.url)}'`))
}

test('the programs of guide, tutorial and README run', { skip }, () => {
  const all = [...programs(guide), ...programs(tutorial), ...programs(readme)]
  assert.ok(all.length >= 7, `${all.length}`)
  for (const text of all) {
    assert.doesNotMatch(text, /example\.com|192\.0\.2/)
    const child = spawnSync(process.execPath, ['--input-type=module', '--eval', text], { encoding: 'utf8', timeout: 30_000 })
    assert.deepEqual([child.status, child.stderr], [0, ''], text)
    assert.doesNotMatch(child.stdout, /undefined|NaN|no reply/, text)
  }
})

test('the guide names all functions and classes', () => {
  for (const name of Object.keys(hailer.default)) {
    assert.match(guide, new RegExp(`\`[^\`]*\\b${name}\\b`), name)
  }
})
