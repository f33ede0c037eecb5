import { createHash } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { documented } from './profile/basic-fields.ts';
import { grammarOf } from './warehouse-address.ts';

/** Longer addresses of sockets are cut off by some systems, 104 bytes with the end at the least. */
const LONGEST_BYTES = 100;

/** The setting `control`. */
export const controlSchema = documented(z.string().min(1).nullable().optional())(
  'Socket for commands to a running `serve`; by default beside the warehouse, else beside the config; null for none',
  ['/run/content-sync/control.sock'],
);

interface ControlPlace {
  /** As the settings have it. */
  control: string | null | undefined;
  warehouse: string;
  /** Absolute path of the config file. */
  config: string;
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
}

/**
 * Absolute path of the control socket, the same for `serve` and for every command under the same config; null for none.
 * It is named after the config, because several may share a folder, and is never in a folder where every user may make
 * files: another one could stand in for `serve`.
 */
export function controlPath({ control, warehouse, config, cwd, env }: ControlPlace): string | null {
  if (control === null || control === 'off') return null;
  if (control !== undefined) return resolve(cwd, control);
  const name = `content-sync-${createHash('sha256').update(config).digest('hex').slice(0, 16)}.sock`;
  const folder = grammarOf(warehouse)?.folder(warehouse, cwd) ?? null;
  const runtime = env['XDG_RUNTIME_DIR'] ?? '';
  const paths = [
    ...(folder === null ? [] : [join(folder, name)]),
    ...(isWritable(dirname(config)) ? [join(dirname(config), name)] : []),
    ...(runtime === '' ? [] : [join(runtime, name)]),
  ];
  return paths.find((path) => Buffer.byteLength(path) <= LONGEST_BYTES) ?? null;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
