import { createHash } from 'node:crypto';
import { createWriteStream, existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import { storesOf } from '../../config/file-stores.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { openWarehouseToRead } from '../../database/databases.ts';
import type { FileRow } from '../../database/own-tables.ts';
import { type FileQuestion, filesAt, lastContent } from '../../database/state/files.ts';
import { ConfigError, messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { visibleText } from '../../model/visible-text.ts';
import { codeOf, isUnwritable, storeFault } from '../../object-store/file-system.ts';
import { openStores } from '../../object-store/open-stores.ts';
import { formatBytes } from '../../observe/figures.ts';
import type { CliContext } from '../command/context.ts';
import { print } from '../command/output.ts';
import { forEachSource, readSettings, type SourceOptions, whileOpen, withSourceOptions } from '../command/sources.ts';
import { momentFrom } from '../runs.ts';

interface GetOptions extends SourceOptions {
  field?: string;
  position: number;
  asOf?: string;
  out?: string;
  force?: true;
}

/** A row whose content is known. */
type StoredFileRow = FileRow & { store: string; sha256: string };

export function getCommand(context: CliContext): Command {
  return withSourceOptions(new Command('get'))
    .description('Write one file, as it is now or was at a given time')
    .argument('<resource>', 'Resource of the profile')
    .argument('<id>', 'Id of the record')
    .option('--field <name>', 'File of a record that has several (`field` in the profile)')
    .option('--position <number>', 'Position in a list, from 0', positionFrom, 0)
    .option('--as-of <time>', 'Version at a date, a time, or a span before now (30d)')
    .option('--out <path>', 'Target file; - for stdout (default: a file here, named after the record)', undefined)
    .option('--force', 'Replace an existing file')
    .action(async (resource: string, id: string, options: GetOptions) => {
      const [, second] = Object.keys(readSettings(context, options).sources);
      if (second !== undefined) {
        throw new ConfigError('usage', 'the config has several sources', { hint: 'say which one by --source' });
      }
      await forEachSource(context, options, [resource], ({ source }) =>
        getFile(context, source, { resource, id, options }),
      );
    });
}

function positionFrom(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new ConfigError('usage', `--position is ${JSON.stringify(text)}, no number from 0`);
}

interface FileRequest {
  resource: string;
  id: string;
  options: GetOptions;
}

async function getFile(
  context: CliContext,
  source: SourceSettings,
  { resource, id, options }: FileRequest,
): Promise<void> {
  const { clock, cwd } = context;
  const at = options.asOf === undefined ? null : timestampText(momentFrom(options.asOf, clock.now()));
  const question = { resource, id, field: options.field ?? null, position: options.position };
  const row = await whileOpen(await openWarehouseToRead(source.warehouse, clock), ({ own }) =>
    contentAt(own, question, at),
  );
  const address = storesOf(source.files).find(({ name }) => name === row.store);
  if (address === undefined) {
    throw new ConfigError('file_store_unknown', `it is stored in ${row.store}, which the settings no longer name`, {
      hint: 'add the store to files.store of the source again, or move its objects to the new one',
    });
  }
  const out = options.out === '-' ? null : path.resolve(cwd, options.out ?? fileName(row));
  if (out !== null) refuseOverwriting(out, options.force === true);
  await whileOpen(openStores({ clock: context.clock, signal: context.signal, isMade: false }), async (stores) => {
    const store = await stores.at(address, source.files);
    const body = await store.read(row.sha256);
    try {
      await (out === null ? written(body, context.stdout, row.sha256) : writtenTo(out, body, row.sha256));
    } catch (error) {
      // The reader of stdout has closed it.
      if (out === null && codeOf(error) === 'EPIPE') return;
      throw storeFault(store.shown, error);
    }
  });
  if (out !== null) print(context, visibleText(`${out}  ${row.type ?? ''}, ${formatBytes(row.bytes ?? 0)}`));
}

async function contentAt(
  own: Parameters<typeof filesAt>[0],
  question: FileQuestion,
  at: string | null,
): Promise<StoredFileRow> {
  const rows = await filesAt(own, question, at);
  const which = `${question.resource} ${question.id}`;
  if (new Set(rows.map(({ field }) => field)).size > 1) {
    throw new ConfigError('usage', `${which} has several files`, {
      hint: `say which one by --field: ${rows.map(({ field }) => field).join(', ')}`,
    });
  }
  const row = rows.findLast(hasContent);
  if (row !== undefined) return row;
  const [shown] = rows;
  const last = await lastContent(own, question);
  const why = shown === undefined ? '' : `: it is ${shown.status}${shown.error === null ? '' : `, ${shown.error}`}`;
  throw new ConfigError(
    'file_unknown',
    `${which} shows no file${at === null ? '' : ` at ${at.slice(0, 19)} UTC`}${why}`,
    {
      hint:
        last === null
          ? 'content-sync files status tells which are here; an id is written as in the column of the table'
          : `one was last seen from ${last.valid_from} to ${last.valid_to ?? 'now'} UTC: --as-of "${last.valid_from}Z"`,
    },
  );
}

function hasContent(row: FileRow): row is StoredFileRow {
  return row.store !== null && row.sha256 !== null;
}

function refuseOverwriting(file: string, isForced: boolean): void {
  if (isForced || !existsSync(file)) return;
  throw new ConfigError('file_exists', `${file} exists already`, {
    hint: 'name another file with --out, or add --force',
  });
}

/** Whole or not at all. */
async function writtenTo(file: string, body: Readable, sha256: string): Promise<void> {
  const unfinished = path.join(path.dirname(file), `.${path.basename(file)}.${process.pid}.part`);
  try {
    await written(body, createWriteStream(unfinished, { flags: 'wx' }), sha256);
    await rename(unfinished, file);
  } catch (error) {
    await rm(unfinished, { force: true });
    // Any other error comes from reading.
    if (!isUnwritable(error)) throw error;
    throw new ConfigError('file_unwritable', `${file}: ${messageOf(error)}`, {
      hint: 'name a place by --out in which this user may make files, and which has room',
      cause: error,
    });
  }
}

async function written(body: Readable, to: Writable, sha256: string): Promise<void> {
  const hash = createHash('sha256');
  await pipeline(
    body,
    async function* hashed(chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        hash.update(chunk);
        yield chunk;
      }
    },
    to,
    // Stdout stays open for other output.
    { end: !('fd' in to && to.fd === 1) },
  );
  if (hash.digest('hex') === sha256) return;
  throw new SyncError('file_damaged', `the object ${sha256} is not what its hash says`, {
    recovery: 'stop',
    hint: 'content-sync files verify --repair has it fetched again, if its record still shows it',
  });
}

const MAX_ID_LENGTH = 100;

/** A default file name of letters, digits and `-_.`, never hidden, whatever the id of the record is. */
function fileName({ record_id, field, position, type }: FileRow): string {
  const id = plain(record_id).slice(0, MAX_ID_LENGTH);
  const [, extension = 'bin'] = /\/([a-z0-9]{1,10})(?:\+[a-z]+)?$/.exec(type ?? '') ?? [];
  return `${id}-${plain(position === 0 ? field : `${field}-${position}`)}.${extension}`;
}

function plain(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N}_.-]/gu, '_').replace(/^[.-]+/, '_');
}
