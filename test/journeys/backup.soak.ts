import { describe, it } from 'vitest';
import { killedBackups, killedRestores } from './backup-kills.ts';

describe('a backup that is killed again and again', () => {
  it('is there whole or not at all', () => killedBackups(10));
  it('is restored whole or not at all', () => killedRestores(10));
});
