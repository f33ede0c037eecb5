import { expect, it } from 'vitest';
import { insteadOf } from '../../../src/config/file/check-value.ts';

it('a field that was removed is refused with what to do in its place', () => {
  expect(insteadOf(['resources', 'posts', 'incremental', 'window'])).toContain('page.style keyset');
  expect(insteadOf(['resources', 'posts', 'window'])).toBeNull();
});
