import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { freshSeed, randomFrom, type Random } from '../support/random.ts';
import {
  askWithSecrets,
  deliverSecrets,
  firstRuns,
  freshSecrets,
  leaksBeyondContent,
  page,
  runCommands,
  secretsStage,
  troubled,
  type Secrets,
} from './serve-secrets-story.ts';

const seed = freshSeed();
const ROUNDS = 10;
/** All that may stand in a header. */
const PRINTABLE = Array.from({ length: 0x7e - 0x21 + 1 }, (_, at) => String.fromCharCode(0x21 + at)).filter(
  (char) => char !== ':' && char !== '$',
);

it(`G25 ${ROUNDS} lives of serve with secrets of all characters: none is written or answered (SEED=${seed})`, async () => {
  const random = randomFrom(seed);
  let searched = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const stage = await secretsStage(oddSecrets(random));
    await firstRuns(stage);
    expect(await deliverSecrets(stage)).toEqual([202]);
    await askWithSecrets(stage);
    await troubled(stage);
    for (const path of ['/', '/status.json', '/metrics', '/readyz']) expect((await page(stage, path)).status).toBe(200);
    await runCommands(stage);
    expect(leaksBeyondContent(stage)).toEqual([]);
    await stage.serve.stop();
    expect(leaksBeyondContent(stage)).toEqual([]);
    searched += stage.serve.written().length + stage.serve.answered().length + stage.printed().length;
  }
  process.stdout.write(`secrets: ${ROUNDS} rounds, ${searched} characters of output and all files searched, 0 found\n`);
});

/** The same kinds of secrets, each with a random text in the middle. */
function oddSecrets(random: Random): Secrets {
  const odd = (): string => Array.from({ length: 12 }, () => random.pick(PRINTABLE)).join('');
  const { whText, whFile, whOld, basic: _, ...plain } = freshSecrets();
  const mark = randomBytes(4).toString('hex');
  const simple = { ...plain, basic: `bas${mark}/canary`, ping: `pin${mark}-canary` };
  const changed = Object.fromEntries(
    Object.entries(simple).map(([name, text]) => [
      name,
      name === 'ping' ? text : `${text.slice(0, 11)}${odd()}${text.slice(11)}`,
    ]),
  );
  return { ...freshSecrets(), ...changed, basic: `hook:${changed['basic']}`, whText, whFile, whOld };
}
