import { describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { servingStage, until } from '../support/serving.ts';

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

describe('two serves on one SQLite file', { timeout: 120_000 }, () => {
  it('F133 both work on it in turn, and the second one goes on alone when the first is gone', async () => {
    const stage = await servingStage({ sandbox: FEW, database: SQLITE });
    const first = await stage.serve();
    await stage.fresh(first);
    const second = await stage.serve({ isInside: true });
    // At rest the copy belongs to nobody, and what the first one has done is not done again.
    expect(await second.page('/readyz')).toMatchObject({ status: 200 });
    // Told to the second one, worked on by either.
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
