// Loads the addon: of a local build, or of the package for this platform.
'use strict'

const { platformName } = require('./platform.cjs')

function load () {
  const name = platformName()
  const tried = []
  for (const path of [`../hailer.${name}.node`, `hailer-${name}`]) {
    try {
      return require(path)
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error
      tried.push(path)
    }
  }
  throw new Error(`hailer has no addon for ${name}: tried ${tried.join(', ')}. Install it without --omit=optional.`)
}

module.exports = load()
