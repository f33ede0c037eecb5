import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Proofs that a form was given out by this process to this user. */
export interface FormTokens {
  /** Another one each time, so that compressed pages tell nothing about it by their length. */
  give(user: string): string;
  isOurs(token: string, user: string): boolean;
}

const SALT_BYTES = 12;
const TOKEN = /^(?<salt>[A-Za-z0-9_-]{16})\.(?<proof>[A-Za-z0-9_-]{43})$/;

/** The key lives as long as the process: what it gave out is worth nothing to the next one. */
export function createFormTokens(key: Uint8Array = randomBytes(32)): FormTokens {
  const proofOf = (salt: string, user: string): Buffer => createHmac('sha256', key).update(`${salt}.${user}`).digest();
  return {
    give: (user) => {
      const salt = randomBytes(SALT_BYTES).toString('base64url');
      return `${salt}.${proofOf(salt, user).toString('base64url')}`;
    },
    isOurs: (token, user) => {
      const { salt, proof } = TOKEN.exec(token)?.groups ?? {};
      if (salt === undefined || proof === undefined) return false;
      const given = Buffer.from(proof, 'base64url');
      const right = proofOf(salt, user);
      return given.length === right.length && timingSafeEqual(given, right);
    },
  };
}
