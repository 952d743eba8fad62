import gamedig from './gamedig.cjs'

export const { GameDig, GameDigError, games } = gamedig
export default gamedig
