import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { openInbox, openWarehouse } from '../../src/warehouse/databases.ts';
import { contentLoader } from '../support/content-loader.ts';
import { recordsOf } from '../support/page-records.ts';
import { softDelete } from '../support/soft-delete.ts';
import { delivery } from './deliveries.ts';

/** Something that is open, and a piece of work on it that is done whole or not at all. */
export interface Piece {
  work: () => Promise<unknown>;
  close: () => Promise<void>;
}

type Open = (file: string) => Promise<Piece>;

const GONE_AT = '2024-01-01 00:00:00.000';
const ROWS = 100;

async function openPage(file: string, from: number): Promise<Piece & { sweep: Piece['work'] }> {
  const warehouse = await openWarehouse(`sqlite:${file}`, systemClock);
  const owned = await ownResources(warehouse, systemClock).acquire('content');
  const loader = await contentLoader(warehouse, owned);
  const record = (_: unknown, row: number): string =>
    `{"id":"${from + row}","body":"${'x'.repeat(900)}","tags":["a","b"]}`;
  const records = recordsOf(Array.from({ length: ROWS }, record));
  return {
    work: () => loader.load({ records, requestedAt: 1_000 }, () => []),
    sweep: () => {
      const keys = Array.from({ length: ROWS / 2 }, (_, key) => String(key));
      return softDelete(warehouse, owned, { keys, at: GONE_AT, history: 'none' });
    },
    close: async () => {
      await owned.release();
      await warehouse.close();
    },
  };
}

async function openDeliveries(file: string): Promise<Piece> {
  const inbox = await openInbox(`sqlite:${file}`, systemClock);
  const bodies = ['a', 'b', 'c'].map((id) => delivery(id, { body: Buffer.alloc(30_000, id) }));
  return { work: () => inbox.write(bodies), close: () => inbox.close() };
}

/** Opening a file that is not there yet, with all its migrations, is the work itself. */
function migrations(open: (address: string) => Promise<Pick<Piece, 'close'>>): Open {
  return async (file) => {
    let opened: Pick<Piece, 'close'> | null = null;
    return {
      work: async () => void (opened = await open(`sqlite:${file}`)),
      close: async () => opened?.close(),
    };
  };
}

/** Each with what has to have been done to the file before; null where there is none before. */
export const PIECES: Readonly<Record<string, { before: Open | null; open: Open }>> = {
  'a page': { before: (file) => openPage(file, 0), open: (file) => openPage(file, ROWS) },
  'a sweep': {
    before: (file) => openPage(file, 0),
    open: async (file) => {
      const { sweep, close } = await openPage(file, 0);
      return { work: sweep, close };
    },
  },
  'an acknowledgement': {
    before: async (file) => ({ ...(await openDeliveries(file)), work: () => Promise.resolve() }),
    open: openDeliveries,
  },
  'the migrations of a warehouse': {
    before: null,
    open: migrations((address) => openWarehouse(address, systemClock)),
  },
  'the migrations of an inbox': { before: null, open: migrations((address) => openInbox(address, systemClock)) },
};
