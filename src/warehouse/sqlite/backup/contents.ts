import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { bytesOf, membersOf, type Member } from './archive.ts';

/** The files of a backup, in this order; only the inbox may be missing. */
export const MEMBERS = {
  about: 'backup.json',
  warehouse: 'warehouse.db',
  inbox: 'inbox.db',
  /** As `sha256sum --check` reads it. Written last: a backup without it was never finished. */
  sums: 'SHA256SUMS',
} as const;

const FORMAT = 'content-sync backup';
/** Grows when a backup can no longer be read by those who know the one before. */
const FORMAT_VERSION = 1;

const aboutSchema = z.object({
  format: z.literal(FORMAT),
  format_version: z.int().positive(),
  source: z.string(),
  /** The moment as of which both files are. */
  taken_at: z.iso.datetime(),
  content_sync: z.string(),
});

export type About = z.output<typeof aboutSchema>;

export function aboutText(about: Omit<About, 'format' | 'format_version'>): string {
  return `${JSON.stringify({ format: FORMAT, format_version: FORMAT_VERSION, ...about }, null, 2)}\n`;
}

/** What a backup holds. */
export interface Contents {
  about: About;
  warehouse: Member;
  inbox: Member | null;
  /** SHA-256 by the name of the member. */
  sums: ReadonlyMap<string, string>;
}

/** Throws `ConfigError` for a file that is no backup, is not whole, or is from a newer content-sync. */
export async function contentsOf(file: FileHandle, shown: string): Promise<Contents> {
  const members = (await membersOf(file)) ?? [];
  const about = await aboutIn(file, members);
  if (about === null) throw invalid(shown, 'it is no backup of content-sync');
  if (about.format_version > FORMAT_VERSION) {
    throw new ConfigError('backup_newer', `${shown} was written by a newer content-sync (${about.content_sync})`, {
      hint: 'restore it with that version',
    });
  }
  const [warehouse, inbox = null, sums] = [MEMBERS.warehouse, MEMBERS.inbox, MEMBERS.sums].map((name) =>
    members.find((member) => member.name === name),
  );
  if (warehouse === undefined || warehouse === null || sums === undefined || sums === null) {
    throw invalid(shown, 'it is not whole');
  }
  return { about, warehouse, inbox, sums: sumsIn((await textOf(file, sums)) ?? '') };
}

/** True if a file begins as a backup does, however it goes on. */
export async function isBackup(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return true;
  const [first] = (await membersOf(file)) ?? [];
  return first?.name === MEMBERS.about;
}

export function invalid(shown: string, why: string): ConfigError {
  return new ConfigError('backup_invalid', `${shown}: ${why}`, {
    hint: 'name a file that content-sync backup has written, and that was copied whole',
  });
}

async function aboutIn(file: FileHandle, members: readonly Member[]): Promise<About | null> {
  const member = members.find(({ name }) => name === MEMBERS.about);
  if (member === undefined) return null;
  try {
    return aboutSchema.parse(JSON.parse((await textOf(file, member)) ?? ''));
  } catch {
    return null;
  }
}

/** Members that are read whole are small. */
const MOST_TEXT = 65_536;

async function textOf(file: FileHandle, member: Member): Promise<string | null> {
  if (member.size > MOST_TEXT) return null;
  const chunks: Buffer[] = [];
  for await (const chunk of bytesOf(file, member)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function sumsIn(text: string): ReadonlyMap<string, string> {
  const lines = text.split('\n').map((line) => /^([0-9a-f]{64}) {2}(.+)$/.exec(line));
  return new Map(lines.flatMap((found) => (found === null ? [] : [[found[2] ?? '', found[1] ?? ''] as const])));
}

/** What cannot be opened at all. */
export function unreadable(shown: string, error: unknown): ConfigError {
  return new ConfigError('backup_missing', `${shown} cannot be read: ${messageOf(error)}`, {
    hint: 'check the path, and that this user may read it',
    cause: error,
  });
}
