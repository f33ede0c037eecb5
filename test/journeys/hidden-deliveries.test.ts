import { expect, it, describe } from 'vitest';
import { eitherDatabase } from '../support/databases.ts';
import { eventBody, servingStage, until } from '../support/serving.ts';

const EITHER = eitherDatabase(import.meta.filename);

const SECRET = 'canary mail of nobody';

describe.for(EITHER)('a delivery about a record with hidden fields on $name', { timeout: 60_000 }, (database) => {
  it('is worked on, and holds nothing of them in the inbox', async () => {
    const fields = { 'author.email': { hash: true }, notes: { exclude: true } };
    const stage = await servingStage({
      database,
      isInside: true,
      sandbox: { generate: { content: 3, images: 1, analytics: 1 } },
      profile: { resources: { content: { fields } } },
      source: { hash_key: 'a-key-of-the-source' },
    });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const record = { id: 'hidden', title: 'Told', author: { name: 'J', email: SECRET }, notes: [SECRET] };
    stage.sandbox.store.put('content', { ...record, updated_at: new Date().toISOString() });
    const told = { resource: 'content', ...record };
    expect(await serving.deliver({ id: 'msg_hidden', body: eventBody(told, 'content.updated') })).toBe(202);
    const delivered = () =>
      stage.readInbox((db) =>
        db
          .prepare<[], { state: string; body: string }>(
            'SELECT state, CAST(body AS TEXT) AS body FROM _sync_deliveries',
          )
          .all(),
      );
    await until('done', async () => (await delivered()).every(({ state }) => state === 'done') || delivered());
    const [delivery, ...others] = await delivered();
    expect(others).toEqual([]);
    expect(JSON.parse(delivery?.body ?? '')).toMatchObject({
      type: 'content.updated',
      data: { id: 'hidden', title: 'Told', author: { name: 'J', email: '***' }, notes: '***' },
    });
    const [row] = await stage.read((db) =>
      db.prepare<[], Record<string, unknown>>("SELECT * FROM content WHERE id = 'hidden'").all(),
    );
    expect(row).toMatchObject({ title: 'Told', author_email: expect.stringMatching(/^[0-9a-f]{32}$/) });
    const { stdout, stderr } = await serving.stop();
    expect(`${stdout}${stderr}`).not.toContain(SECRET);
  });
});
