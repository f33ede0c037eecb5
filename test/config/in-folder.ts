import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ConfigError } from '../../src/model/errors.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { Settings } from '../../src/config/settings.ts';

/** The credential in the configs below: no message may show it. */
const CANARY = 'canary-4711';

/** Calls `work` with a fresh folder that holds the given files, and removes it afterwards. */
export function inFolder<T>(files: Readonly<Record<string, string | Uint8Array>>, work: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'content-sync-settings-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), content);
    }
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Loads `config.yaml` of the folder made from `files`. */
export function load(files: Readonly<Record<string, string | Uint8Array>>, env: NodeJS.ProcessEnv = {}): Settings {
  return inFolder(files, (cwd) => loadSettings({ path: 'config.yaml', env, cwd }));
}

/** The error of a load that must fail. */
export function faultsOf(
  files: Readonly<Record<string, string | Uint8Array>>,
  env: NodeJS.ProcessEnv = {},
): ConfigError {
  try {
    load(files, env);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the settings were accepted');
}

/** A config without a fault; `change` maps texts in it to others. */
export function config(change: Readonly<Record<string, string>> = {}): string {
  const whole = `warehouse: sqlite:data/{source}.db
sources:
  blog:
    base_url: https://cms.example.com
    auth: { type: api_key, key: canary-4711 }
    profile: content-service
    rate: { requests_per_second: 50, share: 0.9 }
    max_wait: 15m
log: { level: info }
`;
  return Object.entries(change).reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`no ${from} in the config`);
    return text.replace(from, () => to);
  }, whole);
}

/** Takes the mark ‸ out of a text and tells the `line:column` at which it stood. */
export function marked(text: string): { text: string; place: string } {
  const before = text.slice(0, text.indexOf('‸')).split('\n');
  return { text: text.replace('‸', ''), place: `${before.length}:${(before.at(-1) ?? '').length + 1}` };
}

/** A fault, the config with ‸ where it must be reported, the field, and what the line must say. */
export type FaultRow = [name: string, text: string, field: string, expected: RegExp];

/** The line of the message for the place of the mark; all of the message where it has no such line. */
export function faultAt(text: string, field: string): string {
  const { text: yaml, place } = marked(text);
  const { message } = faultsOf({ 'config.yaml': yaml }, { EMPTY: '', CANARY });
  if (message.includes(CANARY)) throw new Error('the message shows a secret');
  return lineAt(message, `config.yaml:${place}  ${field === '' ? '' : `${field}: `}expected`);
}

/** The line that begins so. */
export function lineAt(message: string, start: string): string {
  return message.split('\n').find((line) => line.startsWith(start)) ?? `no line "${start}…" in:\n${message}`;
}
