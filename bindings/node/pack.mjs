// Makes the packages for npm: one for each addon `hailer.PLATFORM.node` next to this file, and the package `hailer`, which
// depends on those of all platforms optionally, so that npm installs the one that fits.
//
//   node pack.mjs --out FOLDER
//
// Writes archives to FOLDER and prints their paths, `hailer` last: publish it last. It is the same on every platform.
import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = dirname(fileURLToPath(import.meta.url))
const words = process.argv.slice(2)
const out = resolve(words[words.indexOf('--out') + 1] ?? 'npm')
/** Platforms that the release workflow builds. */
const PLATFORMS = ['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu', 'linux-x64-gnu', 'win32-x64-msvc']
const main = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
const { version, license, engines, repository } = main
const licenses = ['LICENSE-APACHE', 'LICENSE-MIT']
const work = mkdtempSync(join(tmpdir(), 'hailer-npm-'))
mkdirSync(out, { recursive: true })

function pack (path) {
  const printed = execFileSync('npm', ['pack', '--silent', '--pack-destination', out], { cwd: path, encoding: 'utf8' })
  console.log(join(out, printed.trim().split('\n').at(-1)))
}

const addons = readdirSync(folder).map((file) => file.match(/^hailer\.(.+)\.node$/)).filter(Boolean)
if (addons.length === 0) throw new Error('no addon: run build.mjs first')
const packageOf = (platform) => `${main.name}-${platform}`
const optionalDependencies = Object.fromEntries(PLATFORMS.map((platform) => [packageOf(platform), version]))
for (const [file, platform] of addons) {
  const [os, cpu, abi] = platform.split('-')
  const libc = os === 'linux' ? { libc: [abi === 'musl' ? 'musl' : 'glibc'] } : {}
  const name = packageOf(platform)
  const description = `Addon of ${main.name} for ${platform}`
  const path = join(work, platform)
  mkdirSync(path)
  for (const copied of [file, ...licenses]) copyFileSync(join(folder, copied), join(path, copied))
  writeFileSync(join(path, 'README.md'), `# ${name}\n\n${description}. Install \`${main.name}\` instead.\n`)
  const info = { name, version, description, license, repository, engines, os: [os], cpu: [cpu], ...libc, main: file, files: [file, ...licenses] }
  writeFileSync(join(path, 'package.json'), JSON.stringify(info, null, 2))
  pack(path)
}
const path = join(work, 'main')
mkdirSync(path)
for (const copied of ['lib', 'README.md', ...licenses]) cpSync(join(folder, copied), join(path, copied), { recursive: true })
delete main.scripts
delete main.devDependencies
writeFileSync(join(path, 'package.json'), JSON.stringify({ ...main, optionalDependencies }, null, 2))
pack(path)
rmSync(work, { recursive: true })
