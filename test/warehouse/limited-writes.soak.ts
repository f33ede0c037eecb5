import { expect, it } from 'vitest';
import { expectWholeOrNothing, missingForLimits } from './limited-story.ts';

/** Less than half a page of an inbox, so that every write fails once at its beginning and once within. */
it('each write of a page, a sweep, an acknowledgement and a migration fails once, and nothing of it is there', async (context) => {
  const missing = missingForLimits();
  if (missing !== null) context.skip(missing);
  await expectWholeOrNothing(2_000, 6);
  expect.hasAssertions();
});
