import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { loadSettings } from '../../src/settings/load-settings.ts';
import type { Settings } from '../../src/settings/settings.ts';

/** What was read last of a config file, and the texts that it was read from. */
const known = new Map<string, { texts: string; settings: Settings }>();
const MOST_KNOWN = 20;

/**
 * The settings of a config file, as a command reads them. Where no text has changed since, they are those of the reading
 * before, which nobody can change: to read and check them takes as long as most of what a test does with them.
 */
export function readSettings(config: string): Settings {
  const texts = textsBeside(config);
  const before = known.get(config);
  if (texts !== null && before?.texts === texts) return before.settings;
  const settings = loadSettings({ path: config, env: {}, cwd: path.dirname(config) });
  if (known.size >= MOST_KNOWN) known.clear();
  if (texts !== null) known.set(config, { texts, settings });
  return settings;
}

/** The config and all profiles that may belong to it; null where other files do as well. */
function textsBeside(config: string): string | null {
  const folder = path.dirname(config);
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
  const texts = files.toSorted().map((name) => `${name}\n${readFileSync(path.join(folder, name), 'utf8')}`);
  return texts.some((text) => text.includes('${')) ? null : texts.join('\n');
}
