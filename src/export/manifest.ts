import { z } from 'zod';
import { ConfigError } from '../model/errors.ts';
import { COLUMN_TYPES } from '../model/vocabulary.ts';
import { FORMAT_NAMES, FORMAT_OPTIONS } from './formats/format.ts';

/** Raised when a reader of older manifests would read a newer one wrongly. */
export const MANIFEST_VERSION = 1;

const file = z.object({
  /** Below the place. */
  path: z.string(),
  rows: z.int(),
  bytes: z.int(),
  sha256: z.string(),
  /** `2024-10`, or the name that Hive gives to rows without one; null if the table is not cut by month. */
  month: z.string().nullable(),
  /** First and last key of a file of a table that is cut by its key, in the order of their bytes. */
  min_key: z.string().nullable(),
  max_key: z.string().nullable(),
  /** Index of its slice. */
  slice: z.int(),
});

/** A part of a table that is written anew as a whole if any row of it has changed. */
const slice = z.object({
  month: z.string().nullable(),
  /** The key that it begins with, inclusive; null for the first one, and where the table is not cut by its key. */
  from: z.string().nullable(),
  rows: z.int(),
  /** Of its rows in any order: the same rows give the same text. */
  digest: z.string(),
});

const table = z.object({
  name: z.string(),
  description: z.string(),
  columns: z.array(
    z.object({
      name: z.string(),
      type: z.enum(COLUMN_TYPES),
      stored: z.string(),
      description: z.string().nullable(),
    }),
  ),
  /** The column by whose month its folders are named; null if there are none. */
  month_of: z.string().nullable(),
  rows: z.int(),
  /** All that a reader has to read, and nothing but these. */
  files: z.array(file),
  slices: z.array(slice),
});

const manifest = z.object({
  content_sync_export: z.literal(MANIFEST_VERSION),
  source: z.string(),
  format: z.enum(FORMAT_NAMES),
  compression: z.string(),
  options: z.array(z.enum(FORMAT_OPTIONS)).default([]),
  /** All tables are as they were then, UTC. */
  snapshot_at: z.string(),
  written_by: z.string(),
  tables: z.array(table),
});

export type Manifest = z.output<typeof manifest>;
export type ManifestTable = z.output<typeof table>;
export type PartFile = Omit<z.output<typeof file>, 'slice' | 'month'>;

/** With its files. */
export interface Slice extends z.output<typeof slice> {
  files: readonly PartFile[];
}

/** The slices of a table, each with its files. */
export function slicesOf({ slices, files }: ManifestTable): Slice[] {
  return slices.map((each, at) => ({ ...each, files: files.filter((file) => file.slice === at) }));
}

/** As the manifest holds them. */
export function listed(slices: readonly Slice[]): Pick<ManifestTable, 'rows' | 'slices' | 'files'> {
  return {
    rows: slices.reduce((sum, { rows }) => sum + rows, 0),
    files: slices.flatMap(({ month, files }, at) => files.map((file) => ({ ...file, month, slice: at }))),
    slices: slices.map(({ month, from, rows, digest }) => ({ month, from, rows, digest })),
  };
}

/** Throws `ConfigError` if the text is no manifest of ours. */
export function readManifest(text: string, shown: string): Manifest {
  const read = manifest.safeParse(parsed(text));
  if (read.success) return read.data;
  throw new ConfigError('export_place_taken', `${shown}: its manifest.json is none that this version writes`, {
    hint: 'name another place, an empty one; or, if a newer content-sync wrote it, use that one',
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export function manifestText(written: Manifest): string {
  return `${JSON.stringify(written, null, 2)}\n`;
}

/** Paths of all files that it lists. */
export function filesOf(written: Manifest | null): string[] {
  return written?.tables.flatMap(({ files }) => files.map(({ path }) => path)) ?? [];
}
