#!/usr/bin/env bash
# Installs the fault servers of package.json, and a Node.js that runs them: the
# distribution's, or npm's where that is too old, as it is in Debian 12. The
# tests run this by themselves; where all is there it needs no network.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v npm >/dev/null; then
  apt-get update -q
  apt-get install -y -q --no-install-recommends nodejs npm
fi
# aimock imports crc32, which came with Node.js 20.15.
suits() { "$1" -e 'process.exit(require("zlib").crc32 ? 0 : 1)' 2>/dev/null; }
omit=
if suits node; then omit=--omit=optional; fi
if npm ls >/dev/null 2>&1 && { [ -n "$omit" ] || suits node_modules/.bin/node; }; then
  exit
fi
npm ci $omit --no-audit --no-fund
