import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Clock } from '../../../src/model/clock.ts';
import { messageOf } from '../../../src/model/errors.ts';
import { createLog } from '../../../src/observe/log.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { ClusterWork } from '../../../src/server/cluster/cluster-work.ts';
import { findLeader } from '../../../src/server/controls/serve-connection.ts';
import { WorkQueue } from '../../../src/server/work-items/work-queue.ts';
import { collector } from '../../support/collector.ts';
import { asOtherClient, POSTGRES, preparedPostgres } from '../../support/databases.ts';
import { hurriedClock } from '../../support/hurried-clock.ts';
import { until } from '../../support/serving.ts';

const NEVER = new AbortController().signal;
const refuse = () => Promise.reject(new Error('not this source'));
const RETRY = { action: 'retry', source: 'blog' } as const;

/** The queue of a database on which another process leads the source, as far as the database shows. */
async function led(clock: Clock = systemClock) {
  const database = await preparedPostgres();
  const warehouse = `${database}?schema=blog`;
  const queue = new WorkQueue({ address: warehouse, clock: systemClock, failed: () => undefined });
  onTestFinished(() => queue.close());
  await queue.opened;
  const sql = (text: string): Promise<unknown[]> =>
    asOtherClient(database, async (client) => (await client.query<Record<string, unknown>>(text)).rows);
  const find = () => findLeader({ warehouse, clock, by: null });
  expect(await find()).toBeNull();
  await sql("INSERT INTO content_sync.leads (source, owner, until) VALUES ('blog', 'x', now() + interval '1 hour')");
  const door = await find();
  if (door === null) throw new Error('no process leads the source');
  return { warehouse, queue, sql, door };
}

describe.skipIf(POSTGRES.missing !== null)('a request to the leader of a source', () => {
  it('is refused if the leader has made no queue for it', async () => {
    const { door, sql } = await led();
    await sql("DELETE FROM content_sync_boss.queue WHERE name = 'control'");
    await expect(door.send(RETRY, NEVER)).rejects.toMatchObject({ code: 'serve_version' });
  });

  it('is withdrawn if its caller leaves before a process has taken it', async () => {
    const { door, sql } = await led();
    const leaving = new AbortController();
    const left = door.send(RETRY, leaving.signal).catch(messageOf);
    await until('queued', async () => (await sql('SELECT id FROM content_sync_boss.job')).length === 1);
    leaving.abort(new Error('Ctrl-C'));
    expect(await left).toBe('Ctrl-C');
    expect(await sql('SELECT id FROM content_sync_boss.job')).toEqual([]);
  });

  it('says that the leader has ended if it began it and no other process goes on', async () => {
    const { door, sql } = await led(hurriedClock(20));
    const gone = door.send(RETRY, NEVER).catch(messageOf);
    const take = "UPDATE content_sync_boss.job SET state = 'active', heartbeat_on = now() RETURNING id";
    await until('taken', async () => (await sql(take)).length === 1);
    await delay(200);
    await sql("UPDATE content_sync_boss.job SET state = 'retry'");
    expect(await gone).toContain('serve ended before it had answered');
  });

  it('is taken once at most by a process that does not have the source', async () => {
    const { warehouse, queue, sql } = await led();
    const log = createLog({ level: 'info', secrets: [], destination: collector() });
    const work = new ClusterWork({ address: warehouse, clock: systemClock, log, secrets: [], control: refuse });
    onTestFinished(() => work.stop());
    await queue.put({ kind: 'control', source: 'other', id: '1', request: RETRY, by: null });
    const state = (): Promise<unknown[]> => sql('SELECT state::text, retry_count FROM content_sync_boss.job');
    await until('given back', async () => JSON.stringify(await state()).includes('"retry"'));
    await delay(1_200);
    expect(await state()).toEqual([{ state: 'retry', retry_count: 0 }]);
  });
});
