import pino from 'pino';
import { expect, it } from 'vitest';
import { untilReopening } from '../../src/serve/watch-names.ts';
import { NAMED, type NameState } from '../../src/warehouse/name-state.ts';
import { HandClock } from '../support/hand-clock.ts';

const GONE: NameState = { is: 'gone', seen: '' };
const replacedBy = (seen: string): NameState => ({ is: 'replaced', seen });

function watch() {
  const clock = new HandClock();
  const stop = new AbortController();
  const stage = { states: [NAMED, NAMED] as readonly NameState[], lost: 0, isOver: false };
  const parts = { clock, log: pino({ level: 'silent' }), lost: () => void (stage.lost += 1), signal: stop.signal };
  const over = untilReopening(() => stage.states, parts).then(() => void (stage.isOver = true));
  return { clock, stage, stop, over };
}

it('goes on as long as all files have their names', async () => {
  const { clock, stage, stop, over } = watch();
  await clock.advance(60_000);
  expect(stage).toMatchObject({ lost: 0, isOver: false });
  stop.abort();
  await over;
});

it('asks for reopening when a file that had been moved is back, and reports the loss once', async () => {
  const { clock, stage, over } = watch();
  stage.states = [NAMED, GONE];
  await clock.advance(60_000);
  expect(stage).toMatchObject({ lost: 1, isOver: false });
  stage.states = [NAMED, NAMED];
  await clock.advance(500);
  await over;
  expect(stage.lost).toBe(1);
});

it('waits until the file in its place does not change any more', async () => {
  const { clock, stage, over } = watch();
  for (const size of ['1 kB', '2 kB', '3 kB']) {
    stage.states = [replacedBy(size), NAMED];
    await clock.advance(1_500);
    expect(stage.isOver).toBe(false);
  }
  await clock.advance(1_500);
  await over;
});

it('does not ask for reopening while nothing is in the place of one of them', async () => {
  const { clock, stage, stop, over } = watch();
  stage.states = [replacedBy('1 kB'), GONE];
  await clock.advance(60_000);
  expect(stage.isOver).toBe(false);
  stop.abort();
  await over;
});
