import { describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { resourceIn, servingStage, until } from '../support/serving.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

describe('two serves on one SQLite file', { timeout: 120_000 }, () => {
  it('F133 the second one says who has what, and takes over when the first is gone', async () => {
    const stage = await servingStage({ sandbox: FEW, database: SQLITE });
    const first = await stage.serve();
    await stage.fresh(first);
    const second = await stage.serve();
    const owner = async (): Promise<string | undefined> => resourceIn(await second.status(), 'content').owner?.name;
    expect(await owner()).toContain(`pid ${first.command.pid} on `);
    const { attention } = await second.status();
    expect(attention.map(({ what }) => what).join()).toContain(`Another process (pid ${first.command.pid} on`);
    // Told to the second one, worked on by the first.
    await stage.subscribe(second);
    stage.write('content', 'new', { title: 'Told to the second one' });
    await stage.settled();
    first.command.kill('SIGKILL');
    await first.command.ended;
    stage.write('content', 'new', { title: 'Told when the first one was gone' });
    await stage.settled();
    await until(
      'alone',
      async () => (await second.status()).attention.length === 0 || (await second.status()).attention,
    );
    expect(await second.stop()).toMatchObject({ code: 0 });
  });
});
