import { expect, it } from 'vitest';
import { expectWholeOrNothing, missingForLimits } from './limited-story.ts';

it('a write that fails, whichever it is, leaves nothing behind, and the same done again is whole', async (context) => {
  const missing = missingForLimits();
  if (missing !== null) context.skip(missing);
  await expectWholeOrNothing(131_072, 1);
  expect.hasAssertions();
});
