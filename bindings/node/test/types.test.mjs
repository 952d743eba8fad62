import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { hasNo, packageFolder } from './farm.mjs'

test('the types are valid and find mistakes', { skip: hasNo('typescript') }, () => {
  const project = fileURLToPath(new URL('types/tsconfig.json', import.meta.url))
  const compiler = spawnSync(process.execPath, [`${packageFolder('typescript')}/bin/tsc`, '--project', project], { encoding: 'utf8' })
  assert.equal(compiler.stdout + compiler.stderr, '')
  assert.equal(compiler.status, 0)
})
