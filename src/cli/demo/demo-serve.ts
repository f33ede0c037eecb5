import { sql, type Kysely } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import { openWarehouse } from '../../warehouse/databases.ts';
import { untilAborted } from '../../model/waiting.ts';
import type { CliContext } from '../command/context.ts';
import { whileOpen } from '../command/with-app.ts';
import type { DemoEditor } from './demo-editor.ts';
import { startServing } from '../serve.ts';

/** The stage for the second half of the demo. */
export interface ServeScene {
  config: string;
  source: string;
  /** Address of its warehouse. */
  warehouse: string;
  secret: string;
  editor: DemoEditor;
  say: (text: string) => void;
  /** True to go on until the process is told to stop. */
  keep: boolean;
}

/** Until a row is given up on: a demo that hangs explains nothing. */
const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 5;
/** An editor's pace: of a record that changes all the time, readings are about a second apart. */
const BETWEEN_CHANGES_MS = 1_200;

/** Starts `serve`, subscribes it to the service's webhooks, changes records, and shows how soon their rows follow. */
export async function demoServe(context: CliContext, scene: ServeScene): Promise<void> {
  const { config, source, secret, editor, say, keep } = scene;
  const serving = await startServing(context, { config, port: 0 });
  try {
    say(`\nServe: its page is at ${serving.url}/, and the service tells ${serving.url}/webhooks/${source} of changes.`);
    await editor.subscribe(`${serving.url}/webhooks/${source}`, secret);
    await watchRows(context, scene);
    if (!keep) return;
    say(`\nIt goes on: ${serving.url}/ (Ctrl-C ends it).`);
    await untilAborted(context.signal);
  } finally {
    await serving.stop();
  }
}

/** One change in the service, and the row that a reader of the warehouse must see afterwards. */
interface Change {
  told: string;
  make: () => Promise<void>;
  isThere: (row: Row | undefined) => boolean;
}

interface Row {
  title: string | null;
  status: string | null;
  deleted_at: string | null;
}

async function watchRows(context: CliContext, { warehouse: address, editor, say }: ServeScene): Promise<void> {
  // A connection of its own, as every other reader has.
  await whileOpen(await openWarehouse(address, context.clock), async (warehouse) => {
    const { id } = await editor.create({ title: 'Written while you watch', status: 'draft' });
    for (const { told, make, isThere } of changesOf(editor, id)) {
      const began = context.clock.monotonic();
      await make();
      const ms = await until(context, began, async () => isThere(await rowOf(warehouse.own, id)));
      say(`  ${told.padEnd(20)} the row followed after ${String(Math.round(ms)).padStart(4)} ms`);
      await context.clock.sleep(BETWEEN_CHANGES_MS, context.signal);
    }
  });
}

function changesOf(editor: DemoEditor, id: string): Change[] {
  const renamed = 'Renamed while you watch';
  const restored = 'Restored while you watch';
  return [
    { told: 'a post was written', make: async () => undefined, isThere: (row) => row?.deleted_at === null },
    {
      told: 'it was renamed',
      make: () => editor.change(id, { title: renamed }),
      isThere: (row) => row?.title === renamed,
    },
    {
      told: 'it was published',
      make: () => editor.change(id, { status: 'published' }),
      isThere: (row) => row?.status === 'published',
    },
    {
      told: 'it was deleted',
      make: () => editor.remove(id),
      isThere: (row) => row !== undefined && row.deleted_at !== null,
    },
    {
      told: 'it was restored',
      make: async () => void (await editor.create({ id, title: restored, status: 'published' })),
      isThere: (row) => row?.deleted_at === null && row.title === restored,
    },
  ];
}

async function rowOf(own: Kysely<OwnTables>, id: string): Promise<Row | undefined> {
  const { rows } =
    await sql<Row>`SELECT title, status, _deleted_at AS deleted_at FROM content WHERE id = ${id}`.execute(own);
  return rows[0];
}

/** Milliseconds since `began` until it holds. */
async function until({ clock, signal }: CliContext, began: number, holds: () => Promise<boolean>): Promise<number> {
  while (!(await holds())) {
    if (clock.monotonic() - began > PATIENCE_MS) {
      throw new SyncError('demo_failed', 'the change did not reach the warehouse', { recovery: 'stop' });
    }
    await clock.sleep(LOOK_EVERY_MS, signal);
  }
  return clock.monotonic() - began;
}
