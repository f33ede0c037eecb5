import type { TestProject } from 'vitest/node';
import { builtMain } from './built-main.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The file that starts the command line. */
    main: string;
  }
}

/** Tests start the command line hundreds of times: it is built once. */
export default function setup(project: TestProject): void {
  project.provide('main', builtMain());
}
