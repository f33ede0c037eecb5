import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { grammarOf } from './warehouse-address.ts';

/** Longer addresses of sockets are cut off by some systems, 104 bytes with the end at the least. */
const LONGEST_BYTES = 100;
const NAME = 'content-sync.sock';

/** The setting `control`. */
export const controlSchema = z
  .string()
  .min(1)
  .nullable()
  .optional()
  .meta({
    description:
      'Socket through which commands on this machine tell a running `serve` what to do, for its own user only; beside the warehouse where absent; null for none',
    examples: ['/run/content-sync/control.sock'],
  });

interface ControlPlace {
  /** As the settings have it. */
  control: string | null | undefined;
  warehouse: string;
  /** Absolute path of the config file. */
  config: string;
  cwd: string;
}

/**
 * Absolute path of the control socket, the same for `serve` and for every command under the same settings; null for
 * none. A path that is too long for a socket is replaced by a short one in the folder for temporary files.
 */
export function controlPath({ control, warehouse, config, cwd }: ControlPlace): string | null {
  if (control === null || control === 'off') return null;
  const folder = grammarOf(warehouse)?.folder(warehouse, cwd) ?? null;
  const path = control !== undefined ? resolve(cwd, control) : folder === null ? null : join(folder, NAME);
  if (path !== null && Buffer.byteLength(path) <= LONGEST_BYTES) return path;
  const hash = createHash('sha256')
    .update(path ?? config)
    .digest('hex')
    .slice(0, 16);
  const short = join(tmpdir(), `content-sync-${hash}.sock`);
  return Buffer.byteLength(short) <= LONGEST_BYTES ? short : join('/tmp', `content-sync-${hash}.sock`);
}
