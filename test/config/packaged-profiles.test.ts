import { expect, it } from 'vitest';
import { packagedProfiles, readPackagedProfile } from '../../src/config/load-profile.ts';

it.for(packagedProfiles())('the profile %s loads, and says what it is', (name) => {
  expect(readPackagedProfile(name).about?.title).toMatch(/\w/);
});
