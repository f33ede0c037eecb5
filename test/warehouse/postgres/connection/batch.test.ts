import type { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import { Batch, type Step } from '../../../../src/warehouse/postgres/connection/session.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';

const ANSWER_MS = 20_000;

async function onClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const address = await POSTGRES.address();
  return asOtherClient(address, async (client) => {
    await client.query('CREATE TEMP TABLE t (id text PRIMARY KEY, n bigint)');
    return work(client);
  });
}

function runAll(client: Client, steps: readonly Step[]) {
  return client.query(new Batch(steps, ANSWER_MS)).done;
}

function copyOf(...rows: readonly (readonly [string, number])[]): Step {
  return { text: 'COPY t FROM STDIN', data: Buffer.from(rows.map((row) => `${row.join('\t')}\n`).join('')) };
}

const COPY = copyOf(['a', 1], ['b', 2]);
const NONE: Step = { text: 'UPDATE t SET n = 0 WHERE id = $1', values: ['z'], ifNone: () => new Error('not ours') };

describe.skipIf(POSTGRES.missing !== null)('statements in one round trip', () => {
  it('are answered in their order, each with what it returns', async () => {
    await onClient(async (client) => {
      const answers = await runAll(client, [COPY, { text: 'SELECT id, n FROM t WHERE id = ANY($1)', values: [['b']] }]);
      expect(answers.map(({ rowCount }) => rowCount)).toEqual([2, 1]);
      expect(answers[1]?.rows).toEqual([{ id: 'b', n: 2 }]);
    });
  });

  it('are none of them done where one fails, data of a COPY behind it included, and the connection goes on', async () => {
    await onClient(async (client) => {
      await expect(runAll(client, [COPY, { text: 'SELECT 1 / 0' }, COPY])).rejects.toMatchObject({ code: '22012' });
      expect((await client.query('SELECT FROM t')).rowCount).toBe(0);
      await runAll(client, [COPY]);
      expect((await client.query('SELECT FROM t')).rowCount).toBe(2);
    });
  });

  it('F133 say first that a row is missing which they stand on, whatever goes wrong behind it', async () => {
    await onClient(async (client) => {
      await expect(runAll(client, [{ text: 'BEGIN' }, NONE, COPY])).rejects.toThrow('not ours');
      await client.query('ROLLBACK');
      await expect(runAll(client, [NONE, { text: 'SELECT 1 / 0' }])).rejects.toThrow('not ours');
      expect((await client.query('SELECT FROM t')).rowCount).toBe(0);
    });
  });

  it('are not taken for done where the values of one cannot be sent', async () => {
    await onClient(async (client) => {
      const circular = { toPostgres: () => circular };
      const unsendable = { text: 'SELECT $1::text', values: [circular] };
      const steps = [{ text: 'BEGIN' }, COPY, unsendable, { text: 'COMMIT' }];
      await expect(runAll(client, steps)).rejects.toThrow('was not sent');
      await client.query('ROLLBACK');
      expect((await client.query('SELECT FROM t')).rowCount).toBe(0);
    });
  });
});
