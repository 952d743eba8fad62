// Builds the addon for this machine and copies it next to package.json.
//
//   node build.mjs              a quick build, for tests
//   node build.mjs --release    an optimized one
//   node build.mjs --target TRIPLE --name PLATFORM    for another platform, such as linux-arm64-gnu
//
// CARGO_TARGET_DIR is respected. `npm run build` is the same as the first.
import { spawnSync } from 'node:child_process'
import { copyFileSync, renameSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = dirname(fileURLToPath(import.meta.url))
const words = process.argv.slice(2)
const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined)
const { platformName } = createRequire(import.meta.url)('./lib/platform.cjs')
const target = option('--target')
const name = option('--name') ?? platformName()
const profile = words.includes('--release') ? 'release' : 'debug'

const command = ['build', '--locked', '--message-format=json-render-diagnostics']
if (profile === 'release') command.push('--release')
if (target) command.push('--target', target)
const cargo = spawnSync('cargo', command, {
  cwd: folder,
  stdio: ['ignore', 'pipe', 'inherit'],
  maxBuffer: 1 << 28,
  encoding: 'utf8'
})
if (cargo.status !== 0) process.exit(cargo.status ?? 1)

// The last artifact is the addon.
const messages = cargo.stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
const artifact = messages.findLast((message) => message.target?.name === 'hailer_node' && message.filenames)
const library = artifact.filenames.find((file) => /\.(so|dylib|dll)$/.test(file))
const addon = join(folder, `hailer.${name}.node`)
// A running process may have the old file open.
copyFileSync(library, addon + '.new')
renameSync(addon + '.new', addon)
console.log(addon)
