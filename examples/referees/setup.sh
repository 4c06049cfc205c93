#!/usr/bin/env bash
# Installs the fault servers of package.json, and Node.js where there is none.
# The tests run this by themselves when something is missing.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v npm >/dev/null; then
  apt-get update -q
  apt-get install -y -q --no-install-recommends nodejs npm
fi
npm ci --no-audit --no-fund
