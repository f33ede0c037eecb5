import { z } from 'zod';
import { schemeFaults } from './signature-faults.ts';
import { signatureFields } from './signature-fields.ts';
import { SIGNATURE_PRESET_NAMES } from './signature-presets.ts';
import { fillScheme, withBase, type SignatureScheme } from './signature-resolve.ts';
import { hasToken } from './signature-template.ts';

export type { SignatureMethod, SignatureScheme } from './signature-resolve.ts';

/** A preset's name, or a scheme of one's own as data: no code per sender. */
export const signatureSchema = z
  .union([z.enum(SIGNATURE_PRESET_NAMES), signatureFields])
  .transform((given, context): SignatureScheme => {
    const fields = withBase(typeof given === 'string' ? { base: given } : given);
    for (const { path, message } of schemeFaults(fields)) {
      context.issues.push({ code: 'custom', path: [...path], message, input: given });
    }
    return fillScheme(fields);
  });

/** Whether the sender signs the address that it knows, so that the settings must say it (`public_url`). */
export function needsPublicUrl(scheme: SignatureScheme): boolean {
  return hasToken(scheme.signed, 'url', 'host');
}
