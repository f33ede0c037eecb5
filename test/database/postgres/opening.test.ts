import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../src/database/databases.ts';
import { copiedCells, rowsOf } from '../../support/copied-cells.ts';
import { asOtherClient, POSTGRES, postgresDatabase } from '../../support/databases.ts';
import { loadOnce } from '../../support/content-loader.ts';
import { statementPooler } from '../../support/statement-pooler.ts';

const OWN = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('blog') ORDER BY relname";
async function openedAndClosed(address: string): Promise<void> {
  await (await openWarehouse(address, systemClock)).close();
}

describe.skipIf(POSTGRES.missing !== null)('a warehouse on Postgres is opened', () => {
  it('not through a pooler in statement mode, which is told at once and by its mode', async () => {
    const address = await POSTGRES.address();
    const before = performance.now();
    await expect(openedAndClosed(await statementPooler(address))).rejects.toMatchObject({
      name: 'ConfigError',
      code: 'warehouse_unusable',
      message: expect.stringContaining('statement pooling mode'),
      hint: expect.stringMatching(/pool_mode = transaction/),
    });
    expect(performance.now() - before).toBeLessThan(5_000);
    expect(await rowsOf(address, OWN)).toEqual([]);
  });

  it('F145 F131 not in a database of another encoding', async () => {
    const address = await postgresDatabase();
    const name = `ascii_${process.pid}`;
    await asOtherClient(address, (client) =>
      client.query(`CREATE DATABASE ${name} ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'`),
    );
    onTestFinished(() =>
      asOtherClient(address, async (client) => void (await client.query(`DROP DATABASE ${name} WITH (FORCE)`))),
    );
    const ascii = new URL(address);
    ascii.pathname = name;
    await expect(openedAndClosed(`${ascii.href}?schema=blog`)).rejects.toMatchObject({
      name: 'ConfigError',
      code: 'warehouse_unusable',
      message: expect.stringContaining('SQL_ASCII'),
      hint: expect.stringContaining("ENCODING 'UTF8'"),
    });
    expect(await rowsOf(ascii.href, "SELECT 1 FROM pg_namespace WHERE nspname = 'blog'")).toEqual([]);
  });

  it('F145 where clients are told to speak another encoding or time zone, and writes what it was given', async () => {
    const address = await POSTGRES.address();
    const name = new URL(address).pathname.slice(1);
    await asOtherClient(address, (client) =>
      client.query(`ALTER DATABASE ${name} SET client_encoding TO 'LATIN1'; ALTER DATABASE ${name} SET timezone TO 'Asia/Kolkata';
        ALTER DATABASE ${name} SET extra_float_digits TO -3`),
    );
    const warehouse = await openWarehouse(address, systemClock);
    onTestFinished(() => warehouse.close());
    await loadOnce(warehouse, [
      '{"id":"1","text":"é€😀","at":"2026-01-01T00:00:00Z","day":"2026-01-01","n":0.30000000000000004}',
    ]);
    const { n: _, ...before } = (await copiedCells(address, 'content'))['1'] ?? {};
    expect(before).toEqual({ text: 'é€😀', at: '2026-01-01 00:00:00', day: '2026-01-01' });
    await loadOnce(warehouse, ['{"id":"2","day":"2026-01-01T10:00:00Z","n":"text"}']);
    expect((await copiedCells(address, 'content'))['1']).toEqual({
      ...before,
      day: '2026-01-01 00:00:00',
      n: '0.30000000000000004',
    });
  });
});
