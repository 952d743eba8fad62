// The name of this platform, as in the names of the packages with the addon.
'use strict'

/** Returns a name such as `linux-x64-gnu`. */
function platformName () {
  const { platform, arch } = process
  if (platform === 'linux') {
    if (process.report) process.report.excludeNetwork = true
    const report = process.report?.getReport()
    const libc = report?.header?.glibcVersionRuntime ? 'gnu' : 'musl'
    return `linux-${arch}-${libc}`
  }
  return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`
}

module.exports = { platformName }
