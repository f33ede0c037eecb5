// The manifest of an export: the list of its files, which readers follow and later exports compare.
import { z } from 'zod';
import { ConfigError } from '../model/errors.ts';
import { COLUMN_TYPES } from '../model/vocabulary.ts';
import { isJson } from '../observe/scrub.ts';

/** Increased when a reader of older manifests would misread a newer one. */
export const MANIFEST_VERSION = 1;

const file = z.object({
  /** Relative to the target. */
  path: z.string(),
  rows: z.int(),
  bytes: z.int(),
  sha256: z.string(),
  /** `2024-10`, or Hive's name for rows without a date; null if the table is not cut by month. */
  month: z.string().nullable(),
});

const table = z.object({
  name: z.string(),
  description: z.string(),
  columns: z.array(
    z.object({
      name: z.string(),
      type: z.enum(COLUMN_TYPES),
      /** The type in terms of the format. */
      stored: z.string(),
      description: z.string().nullable(),
    }),
  ),
  /** The column whose month names the folders; null if there are none. */
  month_of: z.string().nullable(),
  rows: z.int(),
  /** A reader reads all of these files and no others. */
  files: z.array(file),
  /** What later exports compare: the files of a month, or of the whole table, are rewritten if any row has changed. */
  slices: z.array(
    z.object({
      month: z.string().nullable(),
      rows: z.int(),
      /** The same rows in any order have the same digest. */
      digest: z.string(),
    }),
  ),
});

const manifest = z.object({
  content_sync_export: z.literal(MANIFEST_VERSION),
  source: z.string(),
  format: z.string(),
  compression: z.string(),
  /** Flags of the command, such as `bom`. */
  options: z.array(z.string()).default([]),
  /** The time of all tables, UTC. */
  snapshot_at: z.string(),
  written_by: z.string(),
  tables: z.array(table),
});

export type Manifest = z.output<typeof manifest>;
export type ManifestTable = z.output<typeof table>;
export type ManifestFile = z.output<typeof file>;

/** Throws `ConfigError` if the text is not a manifest of an export. */
export function readManifest(text: string, target: string): Manifest {
  const read = manifest.safeParse(isJson(text) ? JSON.parse(text) : null);
  if (read.success) return read.data;
  throw new ConfigError('export_unwritable', `${target}: its manifest.json was not written by this version`, {
    hint: 'name an empty target; or, if a newer content-sync wrote the manifest, use that version',
  });
}

export function manifestText(written: Manifest): string {
  return `${JSON.stringify(written, null, 2)}\n`;
}
