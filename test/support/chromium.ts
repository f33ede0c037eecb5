import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { chromium, type Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** Path of a Chromium on the PATH; null, with a line that says so, where there is none. */
export function findChromium(): string | null {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter);
  const found = NAMES.flatMap((name) => folders.map((folder) => path.join(folder, name))).find(isProgram);
  if (found === undefined) console.warn(`skipped: no ${NAMES.join(', ')} on the PATH`);
  return found ?? null;
}

/** In containers there is no sandbox to be had, and /dev/shm is small. */
export function startChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
