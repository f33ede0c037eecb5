import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { eitherDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const told = z.object({ attention: z.array(z.looseObject({ resource: z.string().nullable(), what: z.string() })) });

describe.for(eitherDatabase(import.meta.filename))('content-sync status --exit-code, on $name', (database) => {
  it('ends with 0 where all is fresh, 3 where a person should look, 1 where a run failed or nothing can be read', async () => {
    let status = 200;
    const data: object[] = [{ id: 'a' }];
    const fields = { updated: null, page: { style: 'cursor', total: 'total' } };
    const respond = () => {
      const headers = { 'x-request-id': 'req-5' };
      return { status, headers, body: { data, next_cursor: null, total: data.length } };
    };
    const stage = await ownService(database, fields, respond, {}, true);
    const judged = async (...args: string[]) => stage.command('status', '--exit-code', ...args);
    const missing = await judged('--json');
    expect(missing).toMatchObject({ code: 1, stdout: '' });
    expect(JSON.parse(missing.stderr)).toMatchObject({
      source: 'blog',
      error: { code: 'warehouse_missing', message: expect.any(String), hint: expect.any(String) },
    });

    await stage.run('backfill');
    const fresh = await judged('--json');
    expect(fresh).toMatchObject({ code: 0, stderr: '' });
    expect(told.parse(JSON.parse(fresh.stdout)).attention).toEqual([]);

    data.push({ title: 'without an id' });
    await stage.run('backfill');
    const partial = await judged('--json');
    expect(partial.code).toBe(3);
    expect(told.parse(JSON.parse(partial.stdout)).attention).toEqual(
      expect.arrayContaining([expect.objectContaining({ resource: 'report', what: '1 record is set aside' })]),
    );
    expect((await judged()).stdout).toContain('! report: 1 record is set aside');

    data.pop();
    await stage.run('backfill');
    expect((await judged()).code).toBe(0);
    await stage.write(
      "UPDATE _sync_checkpoints SET last_success_at = '2020-01-01 00:00:00.000', last_full_at = '2020-01-01 00:00:00.000'",
    );
    const overdue = await judged();
    expect(overdue).toMatchObject({ code: 3, stdout: expect.stringContaining('Overdue for') });

    status = 403;
    await stage.run('backfill');
    expect((await judged()).code).toBe(1);
    expect((await stage.command('status')).code).toBe(0);
    const plain = JSON.parse((await stage.command('status', '--json')).stdout);
    expect(plain.resources[0].error).toMatchObject({ code: 'forbidden', hint: expect.any(String) });
    expect(plain).not.toHaveProperty('attention');
  });
});
