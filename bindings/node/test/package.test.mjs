// The packages for npm, installed in an empty folder without a registry.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const { platformName } = createRequire(import.meta.url)('../lib/platform.cjs')
const folder = fileURLToPath(new URL('..', import.meta.url))

test('the packages are installed and used', { timeout: 120_000 }, (context) => {
  const work = mkdtempSync(join(tmpdir(), 'hailer-test-'))
  context.after(() => rmSync(work, { recursive: true }))
  const run = (command, ...words) => execFileSync(command, words, { cwd: work, encoding: 'utf8' })
  const archives = run(process.execPath, join(folder, 'pack.mjs'), '--out', join(work, 'npm')).trim().split('\n')
  assert.equal(archives.length, 2)
  writeFileSync(join(work, 'package.json'), '{ "private": true }')
  run('npm', 'install', '--offline', '--no-audit', '--no-fund', '--silent', ...archives)
  const installed = JSON.parse(readFileSync(join(work, 'node_modules/hailer/package.json'), 'utf8'))
  const name = `hailer-${platformName()}`
  assert.ok(Object.keys(installed.optionalDependencies).length >= 5)
  assert.equal(installed.optionalDependencies[name], installed.version)
  const program = "import('hailer').then(({ query }) => query('a b')).catch((error) => console.log(error.code))"
  assert.equal(run(process.execPath, '--eval', program), 'target\n')
  const required = "console.log(typeof require('hailer/gamedig').GameDig.query)"
  assert.equal(run(process.execPath, '--eval', required), 'function\n')
  run('npm', 'uninstall', '--offline', '--silent', 'hailer', name)
  assert.throws(() => run(process.execPath, '--eval', "require('hailer')"))
})
